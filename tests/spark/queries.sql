-- Queries over tables t and u, each through Spark SQL and through flow.spark_sql.
-- A first line "-- select" says that flow.spark_sql cannot maintain it and only reads it.

SELECT * FROM t;
SELECT * EXCEPT (st, arr) FROM t WHERE i > 2;
SELECT i, i + 1 AS j, j * 2 AS k FROM t;
SELECT sum(i), count(*), avg(d) FROM t WHERE d IS NOT NULL AND d < 10;
SELECT i, sum(b) AS s, count(*) AS n, min(dec) AS lo, max(s) AS hi FROM t GROUP BY i;
SELECT i, avg(i) AS a, avg(b) AS b, sum(dec) AS c, avg(dec) AS d, avg(dec2) AS e, sum(ti) AS f, sum(sm) AS g FROM t GROUP BY i;
SELECT bo, sum(dec * dec) AS a, sum(dec / dec_nz) AS b, sum(dec) / count(*) AS c, avg(dec) * 2 AS d FROM t GROUP BY bo;
SELECT i % 3 AS r, count(i) AS a, count(DISTINCT s) AS b, count(DISTINCT i, s) AS c, count(i, s) AS d, count_if(i > 3) AS e FROM t GROUP BY i % 3;
SELECT s, sum(i) FILTER (WHERE i > 0) AS a, avg(dec) FILTER (WHERE bo) AS b, count(*) FILTER (WHERE NOT bo) AS c FROM t GROUP BY s;
SELECT i AS key, count(*) AS n FROM t GROUP BY key HAVING n > 1;
SELECT i, s, count(*) FROM t GROUP BY 1, 2;
SELECT i, bo, sum(b) AS total FROM t GROUP BY ALL;
SELECT year(dt) AS y, month(dt) AS m, sum(dec) AS total FROM t GROUP BY year(dt), month(dt);
SELECT bool_and(bo) AS a, bool_or(bo) AS b, every(i > -100) AS c, some(bo) AS d, min(dt) AS e, max(ts) AS f FROM t;
SELECT sum(DISTINCT i) AS a, sum(DISTINCT dec) AS b, avg(DISTINCT dec) AS c FROM t;
SELECT count(*) FROM t WHERE false;
SELECT sum(dec), avg(dec), max(i) FROM t WHERE false;
SELECT DISTINCT i, bo FROM t;
SELECT t.id, u.name, u.v FROM t JOIN u ON t.i = u.k;
SELECT t.id, u.v FROM t LEFT JOIN u ON t.i = u.k AND u.v > 0;
SELECT t.id, u.id AS uid FROM t RIGHT JOIN u ON t.i = u.k;
SELECT t.id, u.id AS uid FROM t FULL OUTER JOIN u ON t.id = u.id;
SELECT * FROM (SELECT id, i FROM t) JOIN (SELECT id, v FROM u) USING (id);
SELECT * FROM (SELECT id, i FROM t WHERE id > 10) FULL JOIN (SELECT id, v FROM u) USING (id);
SELECT id, a.i FROM (SELECT id, i FROM t) a RIGHT JOIN (SELECT id, v FROM u) b USING (id);
SELECT * FROM (SELECT id, i FROM t) NATURAL JOIN (SELECT id, name FROM u);
SELECT id, i FROM t LEFT SEMI JOIN u ON t.i = u.k;
SELECT id, i FROM t LEFT ANTI JOIN u ON t.i = u.k;
SELECT t.id, u.id AS uid FROM t CROSS JOIN u WHERE t.id < 3 AND u.id < 3;
SELECT a.id, b.id AS bid FROM t a, t b WHERE a.i = b.i AND a.id < b.id;
SELECT id FROM t WHERE i IN (SELECT k FROM u);
SELECT id FROM t WHERE i NOT IN (SELECT k FROM u WHERE k IS NOT NULL);
SELECT id FROM t WHERE i NOT IN (SELECT k FROM u);
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.i AND u.v > 1);
SELECT id FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.i);
SELECT id, (SELECT max(v) FROM u WHERE u.k = t.i) AS m FROM t;
SELECT id, dec - (SELECT avg(v) FROM u) AS off FROM t;
SELECT i AS x FROM t UNION SELECT k FROM u;
SELECT i AS x FROM t UNION ALL SELECT k FROM u;
SELECT dec AS x, 'a' AS y FROM t UNION ALL SELECT v, name FROM u;
SELECT i FROM t INTERSECT SELECT CAST(k AS INT) FROM u;
SELECT i FROM t EXCEPT SELECT CAST(k AS INT) FROM u;
SELECT i FROM t EXCEPT ALL SELECT CAST(k AS INT) FROM u;
SELECT i FROM t MINUS SELECT 3;
SELECT x, count(*) AS n FROM (SELECT i AS x FROM t UNION ALL SELECT k FROM u) GROUP BY x;
WITH big AS (SELECT id, i FROM t WHERE i > 3), m(k, n) AS (SELECT i, count(*) FROM big GROUP BY i) SELECT big.id, m.n FROM big JOIN m ON big.i = m.k;
SELECT id, i FROM t ORDER BY i, id LIMIT 7;
SELECT id, i FROM t ORDER BY i DESC, id LIMIT 7;
SELECT id, i FROM t ORDER BY i DESC NULLS FIRST, 1 LIMIT 7;
SELECT id, i AS z FROM t ORDER BY z NULLS LAST, id DESC LIMIT 5 OFFSET 3;
SELECT i, sum(b) AS total FROM t GROUP BY i ORDER BY sum(b) DESC, i LIMIT 4;
SELECT * FROM VALUES (1, 'a', 1.5), (2, NULL, 22.25) AS v(x, y, z);
SELECT v.x, t.id FROM VALUES (1), (2), (300000000000) AS v(x) JOIN t ON t.i = v.x;
SELECT upper(name) AS n, max(struct(v, id)) AS m FROM u WHERE v IS NOT NULL GROUP BY upper(name);
SELECT s, CASE WHEN count(*) > 3 THEN 'many' ELSE 'few' END AS c FROM t GROUP BY s;
SELECT /*+ BROADCAST(u) */ t.id FROM t JOIN u ON t.i = u.k;
SELECT T.ID, `t`.`i` AS `a b` FROM t;
FROM t |> WHERE i > 3 |> SELECT id, i;
SELECT stddev(w) AS a, variance(w) AS b, stddev_pop(w) AS c, var_pop(w) AS d FROM u;
-- select
SELECT id, e FROM t LATERAL VIEW explode(arr) x AS e;
-- select
SELECT id, e FROM t LATERAL VIEW OUTER explode(arr) x AS e;
-- select
SELECT id, p, e FROM t LATERAL VIEW posexplode(arr) x AS p, e;
-- select
SELECT id, explode(arr) AS e FROM t;
-- select
SELECT id, row_number() OVER (PARTITION BY i ORDER BY dec DESC, id) AS n, rank() OVER (ORDER BY i) AS r, lag(i, 1, 0) OVER (ORDER BY id) AS l FROM t;
-- select
SELECT id, sum(dec) OVER (PARTITION BY bo ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n, count(*) OVER (PARTITION BY bo) AS c FROM t;
-- select
SELECT i, percentile(d, 0.5) AS p, median(dec) AS m FROM t GROUP BY i;
-- select
SELECT bo, size(collect_list(i)) AS n, size(collect_set(i)) AS m FROM t GROUP BY bo;
