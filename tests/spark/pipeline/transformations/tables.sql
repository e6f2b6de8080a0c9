CREATE MATERIALIZED VIEW per_day AS
  SELECT to_date(at) AS day, count(*) AS orders, sum(amount) / count(*) AS mean FROM orders GROUP BY to_date(at);
