// Markdown of answers as elements. All of it is text: HTML stays text, and a link is only an https, http or mailto address.

const BLOCK = /^ {0,3}(#{1,6} |[-*+] |\d{1,9}[.)] |> |```|~~~)/m;
const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?\S?)\*\*|(?<![\w*])\*(?=\S)([^*]+?)\*(?![\w*])|\[([^\]\n]{1,500})\]\(((?:https?:\/\/|mailto:)[^\s()<>]{1,2000})\)/s;
const MOST_MARKDOWN = 200000;

const looksLikeMarkdown = (text) => text.length <= MOST_MARKDOWN && !/^\s*[{[]/.test(text) && (BLOCK.test(text) || /\*\*\S|`[^`\n]+`|\]\(https?:/.test(text));

/** Bold, italic, code and links of a paragraph. */
function inline(text) {
  const parts = [];
  for (let left = text; left;) {
    const match = INLINE.exec(left);
    if (!match) return [...parts, visible(left)];
    const [whole, , code, bold, italic, words, address] = match;
    if (match.index) parts.push(visible(left.slice(0, match.index)));
    if (code !== undefined) parts.push(make('code', {}, visible(code)));
    else if (bold !== undefined) parts.push(make('strong', {}, ...inline(bold)));
    else if (italic !== undefined) parts.push(make('em', {}, visible(italic)));
    else parts.push(make('a', { href: address, rel: 'noopener noreferrer nofollow', target: '_blank' }, visible(words)));
    left = left.slice(match.index + whole.length);
  }
  return parts;
}

/** The blocks of a text: headings, lists, quotations, code, paragraphs. */
function markdown(text) {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const blocks = [];
  const take = (pattern) => {
    const found = [];
    while (lines.length && pattern.test(lines[0])) found.push(lines.shift());
    return found;
  };
  while (lines.length) {
    const line = lines[0];
    const fence = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    if (!line.trim()) lines.shift();
    else if (fence) {
      lines.shift();
      const end = lines.findIndex((each) => each.trim().startsWith(fence));
      blocks.push(make('pre', { tabindex: '0' }, visible(lines.splice(0, end < 0 ? lines.length : end).join('\n'))));
      lines.shift();
    } else if (/^ {0,3}#{1,6} /.test(line)) blocks.push(make('h5', {}, ...inline(lines.shift().replace(/^ *#+ +/, '').replace(/ +#+ *$/, ''))));
    else if (/^ {0,3}> ?/.test(line)) blocks.push(make('blockquote', {}, make('p', {}, ...inline(take(/^ {0,3}>/).map((each) => each.replace(/^ *> ?/, '')).join('\n')))));
    else if (/^\s*([-*+]|\d{1,9}[.)]) /.test(line)) {
      const items = take(/^\s*([-*+]|\d{1,9}[.)]) |^ {2,}\S/);
      const start = /^\s*(\d+)/.exec(line)?.[1];
      const entries = [];
      for (const each of items) {
        const item = /^\s*(?:[-*+]|\d{1,9}[.)]) +(.*)/.exec(each);
        if (item) entries.push(item[1]);
        else entries.push(`${entries.pop()}\n${each.trim()}`);
      }
      blocks.push(make(start ? 'ol' : 'ul', start ? { start } : {}, ...entries.map((each) => make('li', {}, ...inline(each)))));
    } else blocks.push(make('p', {}, ...inline([lines.shift(), ...take(/^(?!\s*$)(?! {0,3}(#{1,6} |[-*+] |\d{1,9}[.)] |>|```|~~~)).*/)].join('\n'))));
  }
  return blocks;
}
