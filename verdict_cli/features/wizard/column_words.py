"""The words of column names by which `verdict init` tells what a column has, in the languages that datasets are often in."""

from __future__ import annotations

CONTENT = frozenset({
    "abstract", "answer", "answers", "article", "body", "candidates", "chat", "checklist", "choice_text", "choices",
    "chosen", "claim", "claims", "code", "comment", "completion", "completions", "content", "context", "contexts",
    "conversation", "criteria", "criterion", "ctx", "description", "dialog", "dialogue", "doc", "docs", "document",
    "documents", "email", "endings", "evidence", "evidences", "expected", "goal", "hypothesis", "input", "inputs",
    "instruction", "instructions", "intent", "knowledge", "message", "messages", "option", "options", "output",
    "outputs", "passage", "passages", "post", "prediction", "premise", "problem", "prompt", "prompts", "query", "question",
    "questions", "reference", "references", "rejected", "replies", "reply", "request", "response", "responses",
    "review", "rubric", "rubrics", "sentence", "snippet", "solution", "source", "statement", "story", "subject",
    "summaries", "summary", "task", "test", "tests", "text", "texts", "ticket", "title", "transcript", "translation", "turns",
    "tweet",
    "frage", "antwort", "aufgabe", "eingabe", "ausgabe", "kontext", "zusammenfassung", "übersetzung", "pregunta", "respuesta",
    "texto", "contexto", "resumen", "traducción", "réponse", "reponse", "texte", "contexte", "résumé", "domanda", "risposta",
    "testo", "contesto", "pergunta", "resposta", "resumo", "vraag", "antwoord", "pytanie", "odpowiedź", "soru", "cevap",
    "вопрос", "ответ", "текст", "问题", "問題", "提问", "回答", "答案", "回复", "文本", "上下文", "输入", "输出", "指令", "摘要",
    "質問", "本文", "要約", "질문", "답변", "문장", "प्रश्न", "उत्तर", "سؤال", "إجابة",
})  # fmt: skip
"""Heads of column names whose texts a judge reads."""
ABOUT = frozenset({"intent", "request", "source", "subject", "task", "title"})
"""Those of them that may also name a category of the row."""
LABEL_NOUNS = frozenset({
    "accuracy", "agreement", "annotation", "appropriate", "best", "better", "bias", "biased", "choice", "class", "coherence",
    "confidence", "correct", "correctness", "csat", "decision", "engagement", "faithful", "faithfulness",
    "flag", "flagged", "fluency", "gold", "grade", "grammar", "grounded", "harmful", "hate", "hateful", "helpful", "human",
    "hallucinated", "hallucination", "hallucinations", "helpfulness", "insult", "jailbreak", "jailbreaking", "judgement",
    "consensus", "judgment", "label", "labels", "majority", "match", "nps", "obscene", "offensive", "ok", "overall", "pass", "passed", "preference",
    "preferred", "quality", "rate", "rating", "ratings", "refusal", "relevance", "relevant", "resolved", "reward", "right",
    "safe", "safety", "satisfaction", "score", "scores", "sentiment", "severity", "spam", "stars", "success", "supported",
    "target", "threat", "toxic", "toxicity", "truth", "unsafe", "usefulness", "verdict", "vote", "votes", "winner",
    "sieger", "gewinner", "ganador", "gagnant", "vincitore", "vencedor", "победитель", "胜者", "bewertung", "note", "punkte", "punktzahl", "qualität", "urteil", "richtig", "korrekt", "etiqueta", "calificación",
    "puntuación", "puntaje", "nota", "evaluación", "valoración", "veredicto", "calidad", "correcta", "correcto", "étiquette",
    "évaluation", "jugement", "qualité", "giudizio", "valutazione", "punteggio", "voto", "etichetta", "qualità", "corretto",
    "avaliação", "rótulo", "pontuação", "qualidade", "correta", "beoordeling", "oordeel", "vurdering", "bedömning", "ocena", "puan", "etiket",
    "оценка", "метка", "балл", "рейтинг", "качество", "评分", "评价", "评估", "标签", "得分", "分数", "打分", "质量",
    "評価", "正誤", "判定", "点数", "ラベル", "スコア", "점수", "평가", "평점", "라벨", "लेबल", "अंक", "تقييم", "تصنيف", "درجة",
})  # fmt: skip
"""Heads of column names that hold a label."""
BEST_LABELS = frozenset(
    {"consensus", "gold", "human", "label", "labels", "majority", "overall", "target", "truth", "verdict", "winner"}
)
PREFERENCES = frozenset({"better", "best", "chosen", "prefer", "preference", "preferred", "prefers", "winner", "wins"})
"""Words of a name that says which text of several is better."""
QUALITIES = ("ness", "ity", "ance", "ence", "ancy", "ency", "acy")
"""Ends of nouns that name a quality, such as `naturalness` and `clarity`."""
NO_QUALITIES = frozenset({
    "activity", "agency", "audience", "business", "capacity", "city", "community", "currency", "density", "difficulty",
    "distance", "entity", "ethnicity", "evidence", "experience", "facility", "frequency", "identity", "insurance", "instance",
    "intensity", "legacy", "nationality", "occurrence", "popularity", "priority", "quantity", "reference", "residence",
    "sentence", "sequence", "university", "velocity", "witness",
})  # fmt: skip
"""Nouns that end like one and say nothing of how good something is."""
QUALIFYING = ("able", "ed", "ful", "ible", "ive", "less", "ous")
"""Ends of adjectives."""
OUTCOME_WORDS = frozenset({"accepted", "approved", "labeled", "labelled", "passed", "preferred", "resolved"})
ALTERNATIVES = frozenset({"alternative", "ans", "choice", "ending", "opt", "option", "sol"})
"""Heads of columns of which two are the options of a question."""
TESTS = frozenset({"test", "tests"})
FLAWS = frozenset({
    "bias", "contradiction", "error", "errors", "hallucination", "hallucinations", "hate", "insult", "jailbreak",
    "jailbreaking", "plagiarism", "profanity", "refusal", "spam", "threat",
})  # fmt: skip
"""Labels that say what is wrong with a text: yes is no praise."""
ADJECTIVES = frozenset({
    "accurate", "appropriate", "biased", "coherent", "correct", "factual", "faithful", "flagged", "fluent", "grounded",
    "hallucinated", "harmful", "hateful", "helpful", "obscene", "offensive", "relevant", "safe", "supported",
    "toxic", "unsafe", "useful",
})  # fmt: skip
ADJECTIVE_OF = {
    "accuracy": "accurate", "coherence": "coherent", "fluency": "fluent", "relevance": "relevant", "safety": "safe",
    "toxicity": "toxic",
}  # fmt: skip
META = frozenset({
    "annotator", "annotators", "at", "author", "by", "category", "cached", "company", "created", "dataset", "date", "deleted", "department",
    "difficulty", "domain", "genre", "level", "subset", "topic", "feedback", "file", "generator", "hash", "id",
    "ids", "idx", "index", "judge", "justification", "key", "labeler", "labeller", "lang", "language", "link",
    "locale", "meta", "metadata", "model", "name", "notes", "path", "policy", "provider", "rater", "raters", "rationale", "reason",
    "reasons", "redacted", "region", "reviewer", "sha", "span", "spans", "split", "streamed", "tag", "tags", "team", "time", "timestamp", "truncated", "type", "uid",
    "updated", "url", "user", "uuid", "version", "worker",
})  # fmt: skip
"""Heads of column names about the row or about its label: a reason that an annotator gave reveals the label."""
ANNOTATORS = frozenset({"annotator", "annotators", "rater", "raters", "labeler", "labeller", "reviewer"})
ROW_NAMES = frozenset({"case", "item", "no", "nr", "num", "number", "ref", "row", "sample", "ticket"})
REFERENCES = frozenset({
    "best", "canonical", "correct", "expected", "gold", "golden", "ground", "ideal", "incorrect", "ref", "reference", "right",
    "truth", "wrong",
})  # fmt: skip
JUDGED_BY = frozenset({
    "context", "contexts", "criteria", "criterion", "ctx", "description", "doc", "docs", "document", "documents", "evidence",
    "evidences", "goal", "history", "input", "instruction", "instructions", "intent", "knowledge", "passage", "passages",
    "premise", "problem", "prompt", "query", "question", "references", "request", "rubric", "source", "subject", "system",
    "task", "test", "tests", "title",
    "frage", "aufgabe", "eingabe", "kontext", "pregunta", "contexto", "contexte", "domanda", "contesto", "pergunta", "vraag",
    "pytanie", "soru", "вопрос", "问题", "問題", "提问", "上下文", "输入", "指令", "質問", "질문", "प्रश्न", "سؤال",
})  # fmt: skip
"""Heads of columns beside what is judged: what it answers, and what it follows from."""
ANSWERS = frozenset({
    "answer", "candidate", "caption", "completion", "essay", "generation", "image", "model", "option", "output", "prediction",
    "reply", "response", "result", "solution", "story", "summary", "translation",
    "antwort", "ausgabe", "zusammenfassung", "übersetzung", "respuesta", "resumen", "traducción", "réponse", "reponse", "résumé",
    "risposta", "resposta", "resumo", "antwoord", "odpowiedź", "cevap", "ответ", "回答", "答案", "回复", "输出", "摘要", "要約",
    "답변", "उत्तर", "إجابة",
})  # fmt: skip
ENTRIES = frozenset({"models", "replies", "summaries", "translations"})
OPTION_NOUNS = frozenset({
    "alternatives", "answers", "candidates", "choices", "completions", "endings", "generations", "options", "outputs", "responses",
})  # fmt: skip
ANSWER_KEYS = frozenset({"answer", "choice", "idx", "index", "key", "option", "solution"})
GENERIC = frozenset({"content", "list", "str", "strength", "string", "text", "texts", "value", "values"})
"""Last words of names that say less than the word before them: `claim_text`, `preference_strength`, `answers.text`."""
ENTRY_TEXTS = ("criterion", "criteria", "text", "description", "question", "requirement", "item", "rubric", "name")
RUBRICS = frozenset(["rubric", "rubrics", "criteria", "criterion", "checklist", "requirements", "requirement"])
