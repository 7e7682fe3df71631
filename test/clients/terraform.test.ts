import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

/**
 * The requests of the public Terraform provider (`langchain-ai/langsmith`, resource `langsmith_deployment`) for
 * `examples/terraform`. The provider itself cannot be built here, so the requests are those of its code.
 */
interface Resource {
  name: string;
  display_name: string;
  source: string;
  source_config: Record<string, unknown>;
  source_revision_config: Record<string, string>;
  environment_variables: Record<string, string>;
}

interface Parsed {
  provider: { langsmith: { api_url: string }[] };
  resource: { langsmith_deployment: { support: Resource[] } };
}

async function readExample(): Promise<{ apiUrl: string; resource: Resource }> {
  const { parse } = (await import("@cdktf/hcl2json" as string)) as {
    parse(name: string, text: string): Promise<Parsed>;
  };
  const { provider, resource } = await parse("main.tf", await readFile("examples/terraform/main.tf", "utf8"));
  const [support] = resource.langsmith_deployment.support;
  assert.ok(support !== undefined);
  return { apiUrl: provider.langsmith[0]?.api_url ?? "", resource: support };
}

const secretsOf = (...maps: Record<string, string>[]) =>
  Object.entries(Object.assign({}, ...maps) as Record<string, string>)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value }));

test("the Terraform provider creates, refreshes, changes, imports and deletes the deployment of examples/terraform", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  await using repository = await createAgentRepository({ ...nodeAgent("one"), "langgraph.json": '{"graphs": {}}' });
  const { apiUrl, resource } = await readExample();
  assert.ok(apiUrl.endsWith("/api/v1"), "as the provider documents its address");
  // The provider cuts /api/v1 off and sends its requests below the rest.
  const root = `${server.url}${new URL(apiUrl).pathname}`.replace(/\/api\/v1$/, "");
  const { id: workspace } = (await server.client.listWorkspaces({})).resources[0] ?? { id: "" };
  const call = async <T>(verb: string, path: string, body?: object): Promise<{ status: number; body: T }> => {
    const headers = { "x-api-key": server.apiKey, "x-tenant-id": workspace, "content-type": "application/json" };
    const response = await fetch(`${root}/v2/deployments${path}`, {
      ...{ method: verb, headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text === "" ? null : JSON.parse(text)) as T };
  };
  const { display_name, environment_variables, source_revision_config } = resource;
  const settings: Record<string, string> = { ...source_revision_config, langgraph_config_path: "pierhead.json" };
  const source_config = { ...resource.source_config, repo_url: repository.url };
  const rolledOut = (id: string, revision: string) =>
    eventually(
      async () => (await call<Revision>("GET", `/${id}/revisions/${revision}`)).body.status,
      (status) => ["DEPLOYED", "SKIPPED", "CREATE_FAILED", "BUILD_FAILED", "DEPLOY_FAILED"].includes(status),
      { timeoutMs: 60_000, what: "the end of the revision" },
    );

  const created = await call<Deployment>("POST", "", {
    ...{ name: resource.name, source: resource.source, source_config, source_revision_config: settings },
    secrets: secretsOf(environment_variables, { OPENAI_API_KEY: "one" }),
  });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const { id, latest_revision_id: first } = created.body;
  assert.ok(first !== null, "the provider fails without a revision");
  assert.equal((await call("PATCH", `/${id}`, { display_name })).status, 200);
  assert.equal(await rolledOut(id, first), "DEPLOYED");

  // A refresh must find what the configuration declares, or every plan would show a change.
  const refreshed = (await call<Deployment>("GET", `/${id}`)).body;
  assert.equal(refreshed.display_name, display_name);
  for (const [field, value] of Object.entries(source_config))
    assert.deepEqual((refreshed.source_config as Record<string, unknown>)[field], value, field);
  assert.deepEqual(
    refreshed.secrets.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    secretsOf(environment_variables, { OPENAI_API_KEY: "one" }),
  );
  assert.equal(refreshed.active_revision_id, first, "the second write made no revision");
  // An import has no earlier state: it takes the branch and the file from here.
  assert.equal(refreshed.source_config.repo_branch, settings["repo_ref"]);
  assert.equal(refreshed.source_revision_config.langgraph_config_path, settings["langgraph_config_path"]);

  const changed = await call<Revision>("POST", `/${id}/revisions`, {
    source_revision_config: settings,
    secrets: secretsOf(environment_variables, { OPENAI_API_KEY: "two" }),
  });
  assert.equal(changed.status, 201);
  assert.equal(await rolledOut(id, changed.body.id), "DEPLOYED");
  const list = await call<{ resources: Revision[] }>("GET", `/${id}/revisions?limit=10&offset=0&status=DEPLOYED`);
  assert.deepEqual(
    list.body.resources.map((one) => one.id),
    [changed.body.id, first],
  );

  assert.equal((await call("DELETE", `/${id}`)).status, 204);
  await eventually(
    async () => (await call("GET", `/${id}`)).status,
    (status) => status === 404,
    { timeoutMs: 60_000, what: "the end of the deletion" },
  );
});
