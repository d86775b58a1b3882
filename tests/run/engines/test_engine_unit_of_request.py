"""A request carries the keys of its unit, so that middleware can keep a limit of a unit without the plan."""


def test_each_request_carries_the_unit_that_made_it(bench):
    bench.run(bench.job(2, "- {unit: JudgeUnit, name: first, prompt: 'Rate {source.text}'}"))
    assert {
        (request.node, request.unit.name, request.unit.type_name) for request in bench.requests
    } == {("first", "first", "JudgeUnit")}
