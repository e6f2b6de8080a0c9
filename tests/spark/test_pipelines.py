"""penstock.pipelines: a file of Declarative Pipelines gives the rows that Spark itself gives for its functions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock import pipelines as dp
from penstock.pipelines.load import load
from penstock.pipelines.registry import Registry, collecting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "pipeline"
SOURCES = ("orders", "customers")
SEED = 7


def orders(chance: random.Random, ids: range) -> pa.Table:
    start = datetime(2024, 1, 5, 3, tzinfo=UTC)
    rows = [
        {
            "id": id,
            "customer": chance.choice(["ann", "bob", "eve", "zoe", None]),
            "amount": None if chance.random() < 0.1 else Decimal(chance.randint(0, 9000)).scaleb(-2),
            "status": chance.choice(["sent", "open", "lost", None]),
            "at": start + timedelta(hours=chance.randint(0, 2000)),
        }
        for id in ids
    ]
    kinds = [pa.int32(), pa.string(), pa.decimal128(8, 2), pa.string(), pa.timestamp("us", tz="UTC")]
    return pa.Table.from_pylist(rows, pa.schema(list(zip(rows[0], kinds, strict=True))))


CUSTOMERS = pa.table({"customer": ["ann", "bob", "kim"], "country": ["FR", "DE", "FR"]})


@pytest.fixture
def flow() -> Iterator[penstock.Flow]:
    flow = penstock.Flow()
    flow.spark_sql(
        "CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(8,2), status STRING, at TIMESTAMP)"
    )
    flow.spark_sql("CREATE TABLE customers (customer STRING, country STRING)")
    yield flow
    flow.close()


def bag(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Any]:
    """Gives Spark the rows that the flow has."""
    made: set[str] = set()

    def give(name: str, rows: Any) -> None:
        rows.createOrReplaceTempView(name)
        made.add(name)

    yield give
    for name in made:
        spark.catalog.dropTempView(name)


@pytest.mark.slow
def test_a_pipeline_follows_changes_as_spark_recomputes_it(
    flow: penstock.Flow, spark: SparkSession, tables: Any
) -> None:
    chance = random.Random(SEED)
    first, more = orders(chance, range(40)), orders(chance, range(40, 60))
    flow.tick({"orders": first, "customers": CUSTOMERS})
    made = dp.run(flow, FOLDER)
    assert made.relations["placed"] == "view"
    assert made.relations["per_country"] == made.relations["both"] == "materialized view"
    assert made.comments == {"per_country": "What each country has bought."}
    assert dp.run(flow, FOLDER).kept == set(made.relations)
    gone = first.slice(5, 10)
    flow.tick("orders", gone.append_column("_weight", pa.array([-1] * 10)))
    flow.tick("orders", more)

    now = pa.concat_tables([first.slice(0, 5), first.slice(15), more])
    tables("orders", spark.createDataFrame(now))
    tables("customers", spark.createDataFrame(CUSTOMERS))
    functions = {each.name: each.query for each in load(FOLDER).feedings}
    tables("placed", functions["placed"]())
    streamed = ("from_inside", "small_ones", "large_ones")
    for name in functions.keys() - set(streamed):
        theirs, ours = functions[name]().toArrow(), flow.sql(f'SELECT * FROM "{name}"')
        assert ours.column_names == theirs.column_names, name
        assert bag(ours) == bag(theirs), name
    for name, condition in (("from_inside", "amount > 10"), ("both", "amount IS NOT NULL")):
        expected = flow.sql(f"SELECT id, amount FROM orders WHERE {condition}")
        assert bag(flow.sql(f'SELECT * FROM "{name}"')) == bag(expected), name
    days = spark.sql(
        "SELECT to_date(at) AS day, count(*) AS orders, sum(amount) / count(*) AS mean FROM orders GROUP BY 1"
    )
    assert bag(flow.sql("SELECT * FROM per_day")) == bag(days.toArrow())


def declared(*decorate: Any) -> Registry:
    registry = Registry()
    with collecting(registry):
        for each in decorate:
            each()
    return registry


def view(query: Any, name: str = "v") -> Any:
    return lambda: dp.materialized_view(name=name)(query)  # type: ignore[misc]


def _udf() -> Any:
    from pyspark.sql import functions as F

    return F.udf(lambda x: x, "int")


REFUSED = (
    (lambda s: s.range(10), "Range in a DataFrame cannot be maintained"),
    (lambda s: s.createDataFrame([(1,)], "a INT"), "cannot be maintained"),
    (lambda s: s.table("orders").dropDuplicates(["customer"]), "dropDuplicates with some of the columns"),
    (lambda s: s.sql("SELECT explode(array(id)) AS x FROM orders"), "Generate in a DataFrame"),
    (lambda s: s.sql("SELECT row_number() OVER (ORDER BY id) AS x FROM orders"), "Window in a DataFrame"),
    (
        lambda s: s.sql("SELECT current_date() AS x FROM orders"),
        "the function current_date is not translated",
    ),
    (lambda s: s.table("orders").sample(0.5), "Sample in a DataFrame"),
    (lambda s: s.table("orders").select(_udf()("id")), "the function pythonudf is not translated"),
    (lambda s: s.table("nowhere"), 'in "v": The table or view `nowhere` cannot be found'),
    (lambda s: s.table("orders").select("nope"), "`nope` cannot be resolved"),
    (lambda s: "SELECT 1", "gave str, not a DataFrame"),
    (lambda s: s.readStream.format("rate").load(), "reads a stream, and a materialized view cannot"),
)


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_what_is_not_covered_is_named(
    flow: penstock.Flow, spark: SparkSession, query: Any, message: str
) -> None:
    with pytest.raises(penstock.PenstockError) as caught:
        dp.run(flow, declared(view(lambda: query(spark))))
    assert message in caught.value.message
    assert not spark.catalog.tableExists("orders")


def test_a_promise_is_checked(flow: penstock.Flow, spark: SparkSession) -> None:
    def query() -> Any:
        return spark.table("orders").select("id")

    with pytest.raises(penstock.BindError, match="was promised as id BIGINT, and its query gives id int"):
        dp.run(flow, declared(lambda: dp.materialized_view(name="v", schema="id BIGINT")(query)))  # type: ignore[misc]


def test_names_of_the_flow_may_have_anything_in_them(flow: penstock.Flow, spark: SparkSession) -> None:
    flow.sql('CREATE TABLE "shop.my orders" (n INT)')
    dp.run(flow, declared(view(lambda: spark.table("`shop.my orders`"))))
    flow.sql('INSERT INTO "shop.my orders" VALUES (1)')
    assert flow.sql("SELECT n FROM v").to_pylist() == [{"n": 1}]
    assert not [each.name for each in spark.catalog.listTables()]


def test_flows_append_to_tables_alone(flow: penstock.Flow, spark: SparkSession) -> None:
    def more() -> Any:
        return spark.readStream.table("orders")

    for decorate in (dp.materialized_view, dp.temporary_view):
        kind = decorate.__name__.replace("_", " ").removeprefix("temporary ")
        first = decorate(name="v")  # type: ignore[operator]
        pipeline = declared(lambda first=first: first(more), lambda: dp.append_flow(target="v")(more))
        with pytest.raises(penstock.BindError, match=f'"more" appends to "v", which is a {kind}'):
            dp.run(flow, pipeline)


def test_a_stream_from_outside_feeds_a_table(
    flow: penstock.Flow, spark: SparkSession, monkeypatch: Any
) -> None:
    def query() -> Any:
        return spark.readStream.format("rate").load().selectExpr("value AS n", "timestamp AS at")

    def over() -> Any:
        return spark.table("ticks").groupBy().count()

    given: dict[str, Any] = {}
    monkeypatch.setattr(
        penstock.Flow, "stream", lambda self, frames, **more: given.update(frames) or "query", raising=False
    )
    pipeline = declared(view(over), lambda: dp.table(name="ticks")(query))  # type: ignore[misc]
    with pytest.raises(penstock.InvalidOption, match="needs a folder for Spark's checkpoints"):
        dp.run(flow, pipeline)
    assert set(flow.spark_columns()) == set(SOURCES)  # it was said before anything was made
    made = dp.run(flow, pipeline, checkpoint="somewhere")
    assert made.relations == {"ticks": "table", "v": "materialized view"}
    assert made.stream == "query"
    assert given["ticks"].isStreaming
    flow.sql("INSERT INTO ticks VALUES (1, '2024-01-01 00:00:00Z')")
    assert flow.sql("SELECT * FROM v").to_pylist() == [{"count": 1}]


def test_the_users_own_view_is_not_hidden(flow: penstock.Flow, spark: SparkSession, tables: Any) -> None:
    tables("orders", spark.sql("SELECT 1 AS mine"))
    with pytest.raises(penstock.DuplicateObject, match='temporary view "orders" of its own'):
        dp.run(flow, declared(view(lambda: spark.table("orders"))))
    assert spark.table("orders").columns == ["mine"]


# -- run again ----------------------------------------------------------------------------------


def chain(spark: SparkSession, low: str = "id > 1", texts: tuple[tuple[str, str], ...] = ()) -> Registry:
    """`high` over `low`, in the wrong order, and views that have to do with neither or are of SQL."""
    made = declared(
        view(lambda: spark.table("low").groupBy().count(), "high"),
        view(lambda: spark.table("orders").where(low).select("id"), "low"),
        view(lambda: spark.table("customers").select("country"), "apart"),
    )
    made.texts.extend(texts)
    return made


HIGHER = ("a.sql", "CREATE MATERIALIZED VIEW higher AS SELECT count + 1 AS n FROM high")


def definitions(flow: penstock.Flow) -> dict[str, Any]:
    """What says that a view is another one: it has another number, or was made in another epoch."""
    return {each.name: (each.id, getattr(each, "since", None)) for each in flow._core.catalog}


def test_a_second_run_changes_nothing_and_another_definition_only_its_views(
    flow: penstock.Flow, spark: SparkSession
) -> None:
    dp.run(flow, chain(spark, texts=(HIGHER,)))
    flow.spark_sql("INSERT INTO orders (id) VALUES (1), (2), (3)")
    before = definitions(flow)
    again = dp.run(flow, chain(spark, texts=(HIGHER,)))
    assert again.kept == {"low", "high", "apart", "higher"}
    assert definitions(flow) == before

    changed = dp.run(flow, chain(spark, "id > 2", (HIGHER,)))
    assert changed.kept == {"apart"}
    after = definitions(flow)
    assert {name for name in after if after[name] != before[name]} == {"low", "high", "higher"}
    flow.spark_sql("INSERT INTO orders (id) VALUES (4), (2)")
    assert flow.sql("SELECT n FROM higher").to_pylist() == [{"n": 3}]

    with pytest.raises(penstock.DivisionByZero):  # the views that were dropped for it come back
        dp.run(flow, chain(spark, "1 / (id - 4) < 2", (HIGHER,)))
    assert flow.sql("SELECT n FROM higher").to_pylist() == [{"n": 3}]

    flow.sql("CREATE VIEW mine AS SELECT id FROM low")
    before = definitions(flow)
    with pytest.raises(penstock.DependentObjects, match='"low" has changed, and view "mine", which the pipe'):
        dp.run(flow, chain(spark, "id > 3", (HIGHER,)))
    assert definitions(flow) == before
    assert dp.run(flow, chain(spark, "id > 2", (HIGHER,))).kept == again.kept


def test_a_table_with_other_columns_is_refused_before_anything_is_made(
    flow: penstock.Flow, spark: SparkSession
) -> None:
    def pipeline(columns: str) -> Registry:
        return declared(
            view(lambda: spark.table("fed").groupBy().count()),
            lambda: dp.create_streaming_table("fed", schema=columns),
        )

    flow.sql("CREATE TABLE fed (n BIGINT PRIMARY KEY)")
    with pytest.raises(penstock.DuplicateObject) as caught:
        dp.run(flow, pipeline("n BIGINT, s STRING"))
    assert 'the table "fed" has the columns (`n` bigint), and the pipeline declares (`n` bigint, `s`' in str(
        caught.value
    )
    assert "v" not in flow.spark_columns()
    assert dp.run(flow, pipeline("n BIGINT")).kept == {"fed"}
    with pytest.raises(penstock.WrongObjectType, match='"v" is a materialized view of the flow'):
        dp.run(flow, declared(lambda: dp.create_streaming_table("v", schema="n INT")))


@pytest.mark.slow
def test_streams_go_on_where_they_were(flow: penstock.Flow, spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def query() -> Any:
        return spark.readStream.schema("n INT").json(str(source))

    def total() -> list[Any]:
        pipeline = declared(
            lambda: dp.table(name="ticks")(query),  # type: ignore[misc]
            view(lambda: spark.table("ticks").groupBy().count()),
        )
        pipeline.storage = str(tmp_path / "storage")
        made = dp.run(flow, pipeline, trigger="available now")
        made.stream.await_termination()
        return flow.sql("SELECT count FROM v")["count"].to_pylist()

    (source / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    assert total() == [2]
    assert (tmp_path / "storage" / "ticks" / "offsets").is_dir()
    (source / "b.json").write_text('{"n": 3}\n')
    assert total() == [3]


# -- SQL files ----------------------------------------------------------------------------------


def files(*texts: str) -> Registry:
    return Registry(texts=[(f"{i}.sql", text) for i, text in enumerate(texts)])


def test_statements_are_made_when_what_they_read_is_there(flow: penstock.Flow, spark: SparkSession) -> None:
    pipeline = files(
        "CREATE MATERIALIZED VIEW b AS SELECT n FROM a; CREATE VIEW a AS SELECT count AS n FROM v",
        "CREATE TABLE t (id INT)",
    )
    with collecting(pipeline):
        view(lambda: spark.table("t").groupBy().count())()
    made = dp.run(flow, pipeline)
    assert made.relations == {"t": "table", "v": "materialized view", "a": "view", "b": "materialized view"}
    flow.sql("INSERT INTO t VALUES (1)")
    assert flow.sql("SELECT n FROM b").to_pylist() == [{"n": 1}]
    assert dp.run(flow, pipeline).kept == set(made.relations)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE VIEW a AS SELECT n FROM b;\nCREATE VIEW b AS\n SELECT n FROM nowhere",
            'in 0.sql, line 3: table or view "nowhere" does not exist',
        ),
        ("CREATE VIEW a AS SELECT n FROM b; CREATE VIEW b AS SELECT n FROM a", '"a" and "b" wait for each'),
        ("CREATE VIEW a AS SELECT 1 AS n; CREATE VIEW A AS SELECT 2 AS n", 'declares "A" twice'),
        ("CREATE VIEW a AS SELECT nope FROM orders", "in 0.sql"),
        ("INSERT INTO orders (id) VALUES (1)", "in 0.sql: INSERT is not run by a pipeline"),
        ("CREATE FLOW f AS INSERT INTO orders BY NAME SELECT * FROM t", "in 0.sql: CREATE FLOW is not cov"),
        ("CREATE STREAMING TABLE t (n INT)", "CREATE STREAMING TABLE is not translated"),
    ],
)
def test_a_statement_that_is_wrong(
    flow: penstock.Flow, spark: SparkSession, capfd: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    with pytest.raises(penstock.PenstockError) as caught:
        dp.run(flow, files(text))
    assert message in caught.value.message
    assert set(flow.spark_columns()) == set(SOURCES)
    assert "unsupported syntax" not in capfd.readouterr().err


def test_a_view_of_the_flow_is_tried_as_it_is(flow: penstock.Flow, spark: SparkSession) -> None:
    flow.sql("CREATE VIEW clock AS SELECT now() AS at")
    wanted = "CREATE VIEW a AS SELECT id FROM orders; CREATE MATERIALIZED VIEW b AS SELECT at FROM clock"
    with pytest.raises(penstock.NotMaintainable, match=r"now\(\) gives another answer"):
        dp.run(flow, files(wanted))
    assert "a" not in flow.spark_columns()


# -- without Spark ------------------------------------------------------------------------------


def test_options_of_storage_are_refused() -> None:
    for name, value in (("partition_cols", ["a"]), ("format", "parquet"), ("spark_conf", {"a": "b"})):
        with pytest.raises(penstock.InvalidOption, match=f"{name} is not covered"):
            dp.table(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(penstock.NotMaintainable, match="create_sink"):
        dp.create_sink("out", "kafka")


def test_decorators_outside_of_a_run() -> None:
    with pytest.raises(penstock.BindError, match="do nothing outside of a run"):
        dp.materialized_view(lambda: None)


def test_names_with_dots_are_refused() -> None:
    for decorate in (
        view(lambda: None, "db.totals"),
        lambda: dp.create_streaming_table("db.totals", schema="n INT"),
        lambda: dp.append_flow(target="db.totals"),
    ):
        with pytest.raises(
            penstock.InvalidOption, match=r'"db.totals" has a dot, and a flow has no databases'
        ):
            declared(decorate)


def test_names_are_taken_once() -> None:
    with pytest.raises(penstock.DuplicateObject, match='declares "v" twice'):
        declared(view(lambda: None), view(lambda: None))


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.sql").write_text("SELECT 1 AS one")
    monkeypatch.chdir(tmp_path)
    assert load("inner").texts == load("inner/a.sql").texts == [("a.sql", "SELECT 1 AS one")]


def test_storage_is_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (n INT)")
    for given, wanted in (("here", str(tmp_path / "here")), ("s3a://b/c", "s3a://b/c"), ("/d", "/d")):
        spec = f"name: x\nstorage: {given}\nlibraries:\n  - glob:\n      include: a.sql"
        (tmp_path / "spark-pipeline.yml").write_text(spec)
        assert load(tmp_path).storage == load(tmp_path / "spark-pipeline.yml").storage == wanted


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("storage: x", "it has no name"),
        ("name: x\nstorage: 5", "storage in .* is a folder or a URL, not 5"),
        ("name: x\nextra: 1", 'has a field "extra"'),
        ("name: x\ncatalog: c", "catalog in .* is not covered"),
        ("name: x\nlibraries:\n  - glob:\n      include: a*/b.py", "neither a file nor a folder"),
        ("name: [", "cannot be read"),
        ("name: x", "declares a table or view"),
    ],
)
def test_a_spec_that_is_wrong(tmp_path: Path, spec: str, message: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    with pytest.raises(penstock.PenstockError, match=message):
        load(tmp_path)
