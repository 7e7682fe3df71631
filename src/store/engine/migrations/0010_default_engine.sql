-- additive
-- Engine of LangGraph.js projects that name none, decided with the deployment's databases. null: files.
alter table deployments add column default_engine text check (default_engine in ('postgres'));
