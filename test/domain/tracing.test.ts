import assert from "node:assert/strict";
import { test } from "node:test";
import { type TracingBackend, tracingProjectId, tracingVariables } from "../../src/domain/tracing.ts";

const langsmith: TracingBackend = {
  kind: "langsmith",
  url: "https://traces.example.org/api/v1",
  key: "ls-key",
  workspaceId: null,
  headers: null,
};
const otlp: TracingBackend = {
  kind: "otlp",
  url: "http://collector:4318",
  key: null,
  workspaceId: null,
  headers: "authorization=Bearer x",
};
const variables = (backend: TracingBackend, ...own: string[]) => tracingVariables(backend, "bot", new Set(own));

test("a project's id is a UUID that depends only on workspace and name", () => {
  const id = tracingProjectId("0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22", "bot");
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(tracingProjectId("0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22", "bot"), id);
  assert.notEqual(tracingProjectId("0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c23", "bot"), id);
  assert.notEqual(tracingProjectId("0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22", "bot2"), id);
});

test("an agent gets a LangSmith-compatible server's address under both variable names", () => {
  assert.deepEqual(variables({ ...langsmith, workspaceId: "w" }), {
    LANGSMITH_TRACING: "true",
    LANGCHAIN_TRACING_V2: "true",
    LANGSMITH_ENDPOINT: langsmith.url,
    LANGCHAIN_ENDPOINT: langsmith.url,
    LANGSMITH_API_KEY: "ls-key",
    LANGCHAIN_API_KEY: "ls-key",
    LANGSMITH_WORKSPACE_ID: "w",
  });
});

test("a deployment with its own tracing backend gets none of the operator's variables, least of all the key", () => {
  assert.deepEqual(variables(langsmith, "LANGSMITH_API_KEY"), {});
  assert.deepEqual(variables(langsmith, "LANGSMITH_ENDPOINT"), {});
  assert.deepEqual(variables(otlp, "LANGSMITH_API_KEY", "OTEL_EXPORTER_OTLP_ENDPOINT"), {});
});

test("a deployment can disable tracing", () => {
  const given = variables(langsmith, "LANGSMITH_TRACING");
  assert.ok(!("LANGSMITH_TRACING" in given) && !("LANGCHAIN_TRACING_V2" in given));
  assert.equal(given["LANGSMITH_ENDPOINT"], langsmith.url);
});

test("an agent gets the collector's address and its service name", () => {
  assert.deepEqual(variables(otlp), {
    LANGSMITH_TRACING: "true",
    LANGCHAIN_TRACING_V2: "true",
    LANGSMITH_OTEL_ENABLED: "true",
    LANGSMITH_OTEL_ONLY: "true",
    OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer x",
    OTEL_SERVICE_NAME: "bot",
  });
  assert.equal("OTEL_SERVICE_NAME" in variables(otlp, "OTEL_SERVICE_NAME"), false);
});
