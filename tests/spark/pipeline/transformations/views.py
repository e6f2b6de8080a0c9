"""A pipeline as its users write it; only the first import is ours."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import col, count, lit, sum, when

from penstock import pipelines as dp

spark = SparkSession.active()


@dp.materialized_view(comment="What each country has bought.")
def per_country() -> DataFrame:
    # Declared before what it reads.
    return (
        spark.read.table("placed")
        .join(spark.table("customers"), "customer")
        .groupBy("country")
        .agg(sum("amount").alias("total"), count("*").alias("n"), F.avg("amount").alias("mean"))
        .where(col("n") > 1)
    )


@dp.temporary_view
def placed() -> DataFrame:
    return (
        spark.read.table("orders")
        .filter(~col("status").isin("lost", "?"))
        .withColumn("gross", col("amount") * 1.19)
    )


@dp.materialized_view(name="labels")
def some_function() -> DataFrame:
    orders = spark.table("orders")
    size = when(col("amount") > 50, "big").when(col("amount").isNull(), lit(None)).otherwise("small")
    return orders.select(
        "id",
        size.alias("size"),
        F.upper(F.coalesce("status", lit("none"))).alias("status"),
        (col("id") / 4).alias("quarter"),
        col("id").cast("string").alias("text"),
        F.year("at").alias("year"),
        F.date_trunc("month", "at").alias("month"),
        F.round("amount", 1).alias("rounded"),
        F.concat_ws("-", "customer", "status").alias("joined"),
        F.regexp_replace("status", "[aeiou]", "_").alias("veiled"),
        F.substring("status", 1, 2).alias("start"),
        F.nvl("status", lit("?")).alias("given"),
        F.datediff(F.to_date("at"), F.lit("2024-01-01").cast("date")).alias("days"),
        col("status").like("s%").alias("s"),
        col("amount").between(10, 20).alias("middle"),
        col("at").isNotNull().alias("known"),
    )


@dp.materialized_view(schema="customer STRING, n BIGINT")
def active() -> DataFrame:
    return spark.sql("""
        WITH busy AS (SELECT customer, count(*) AS n FROM orders GROUP BY customer)
        SELECT customer, n FROM busy WHERE n > (SELECT avg(n) FROM busy) OR customer IN (SELECT customer FROM customers)
    """)


@dp.materialized_view
def rest() -> DataFrame:
    orders, customers = spark.table("orders"), spark.table("customers")
    silent = customers.join(orders, "customer", "left_anti").select(
        col("customer").alias("who"), lit("silent").alias("why")
    )
    unknown = (
        orders.join(customers, "customer", "left").where("country IS NULL").select("customer", lit("unknown"))
    )
    return silent.union(unknown).distinct()


@dp.materialized_view
def top() -> DataFrame:
    return spark.table("orders").orderBy(col("amount").desc(), "id").limit(5).drop("status")


@dp.materialized_view
def twice() -> DataFrame:
    a, b = spark.table("orders").alias("a"), spark.table("orders").alias("b")
    same = (col("a.customer") == col("b.customer")) & (col("a.id") < col("b.id"))
    return a.join(b, same).select(
        "a.id", col("b.id").alias("other"), (col("a.amount") - col("b.amount")).alias("less")
    )


@dp.materialized_view
def statuses() -> DataFrame:
    # In Python a pipeline may loop, and use itself.
    made = spark.table("orders").groupBy("customer")
    counts = made.agg(*[F.count(when(col("status") == each, 1)).alias(each) for each in ("sent", "open")])
    zero = spark.table("customers").selectExpr(
        "0L AS open", "0L AS sent", "concat('new ', customer) AS customer"
    )
    return counts.unionByName(zero).withColumnRenamed("customer", "who").dropDuplicates()


@dp.table
def from_inside() -> DataFrame:
    return spark.readStream.table("orders").where("amount > 10").select("id", "amount")


dp.create_streaming_table("both", schema="id INT, amount DECIMAL(8,2)")


@dp.append_flow(target="both")
def small_ones() -> DataFrame:
    return spark.readStream.table("orders").where("amount <= 10").select("id", "amount")


@dp.append_flow(target="both")
def large_ones() -> DataFrame:
    return spark.readStream.table("from_inside")
