import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type AgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { userHeaders } from "../support/call-api.ts";
import type { Canaries } from "../support/canary.ts";
import { eventually } from "../support/eventually.ts";

/** A response with its unparsed text, so that a flow can search it for secrets. */
export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: responses of every shape.
  body: any;
  text: string;
}

export interface AskOptions {
  key?: string;
  headers?: Record<string, string>;
  /** Returns the secrets that this response must contain. No other response may contain them. */
  gives?: (body: Answer["body"]) => Record<string, string>;
}

export interface FlowContext {
  canaries: Canaries;
  repository: AgentRepository;
  /** Calls the API and records the response in `texts`, without the secrets that it must contain. */
  ask(verb: string, path: string, body?: unknown, options?: AskOptions): Promise<Answer>;
  /** Everything that the server sent to any client, except expected secrets. */
  texts: string[];
  url: string;
}

/** Ids of the resources that the flows created, keyed by the path parameter of the operations. */
export type Made = Record<string, string>;

/** Returns the part of a key after its public prefix. */
const secretPart = (key: string) => key.split("_").slice(2).join("_");

/** Creates and uses keys of users and listeners, and sends invalid and revoked keys. */
export async function keyFlows({ ask, canaries, url, texts }: FlowContext): Promise<Made & { readerKey: string }> {
  const mint = async (role: string) => {
    const gives = ({ key }: { key: string }) => ({ [`key of a ${role}`]: secretPart(key) });
    return (await ask("POST", "/v2/admin/api-keys", { name: role, role }, { gives })).body;
  };
  const reader = await mint("reader");
  const revoked = await mint("deployer");
  await ask("DELETE", `/v2/admin/api-keys/${revoked.id}`);
  await ask("GET", "/v2/deployments", undefined, { key: revoked.key });
  for (const header of ["x-api-key", "authorization", "x-service-key"]) {
    const value = `${header === "authorization" ? "Bearer " : ""}${canaries.make(`wrong ${header}`)}`;
    await ask("GET", "/v2/deployments", undefined, { key: "", headers: { [header]: value } });
  }
  await ask("GET", `/v2/deployments?api_key=${canaries.make("key in the query")}`);
  const session = await fetch(`${url}/v2/session`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-pierhead-console": "1" },
    body: JSON.stringify({ api_key: reader.key }),
  });
  texts.push(await session.text());
  const [cookie = ""] = session.headers.getSetCookie();
  canaries.keep("cookie of a session", /=([^;]+)/.exec(cookie)?.[1] ?? "");
  const compute = { compute_type: "k8s", compute_id: randomUUID(), compute_config: { k8s_namespaces: ["agents"] } };
  const keyOf = ({ listener_key }: { listener_key: string }) => secretPart(listener_key);
  const listener = await ask("POST", "/v2/listeners", compute, { gives: (body) => ({ "listener key": keyOf(body) }) });
  const at = `/v2/listeners/${listener.body.id}`;
  await ask("POST", `${at}/enrollment`, undefined, {
    gives: ({ enrollment_token }) => ({ "enrollment token": enrollment_token }),
  });
  await ask("POST", `${at}/key`, undefined, { gives: (body) => ({ "new listener key": keyOf(body) }) });
  return { listener_id: listener.body.id, api_key_id: reader.id, readerKey: reader.key };
}

/** Creates deployments that succeed, deployments that fail in every way, and requests that the API rejects. */
export async function deploymentFlows(context: FlowContext): Promise<Made & { agentUrl: string; own: string }> {
  const { ask, canaries, repository } = context;
  const body = (name: string, repoUrl: string, ref = "main") => ({
    name: `${name}-${randomUUID().slice(0, 8)}`,
    source: "github",
    source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
    source_revision_config: { repo_ref: ref, langgraph_config_path: "pierhead.json" },
    secrets: [{ name: "KEY", value: canaries.make(`secret of ${name}`) }],
  });
  const good = await ask("POST", "/v2/deployments", body("good", repository.url), {
    headers: { "idempotency-key": randomUUID() },
  });
  await ended(context, good.body.id);
  const own = canaries.make("secret by a patch");
  await ask("PATCH", `/v2/deployments/${good.body.id}`, { secrets: [{ name: "KEY", value: own }] });
  const revision = await ended(context, good.body.id);
  assert.equal(revision.status, "DEPLOYED", revision.status_message);

  const withPassword = `https://me:${canaries.make("password in a git address")}@127.0.0.1:1/acme/bot`;
  const withToken = `https://127.0.0.1:1/acme/bot?token=${canaries.make("token in a git address")}`;
  await repository.commit({ "server.js": "process.stderr.write('no luck'); process.exit(3);" });
  for (const [name, url, ref] of [
    ["failing", repository.url, "main"],
    ["nowhere", "https://127.0.0.1:1/acme/bot", "main"],
    ["without-branch", repository.url, "no-such-branch"],
    ["with-password", withPassword, "main"],
    ["with-token", withToken, "main"],
  ] as const) {
    const made = await ask("POST", "/v2/deployments", body(name, url, ref));
    if (made.status < 300) assert.match((await ended(context, made.body.id)).status, /FAILED/, name);
  }
  await repository.commit(nodeAgent("two"));
  const bad = body("refused", repository.url);
  const odd = { name: "KEY", value: { nested: canaries.make("secret of the wrong type") } };
  for (const refused of [
    { ...bad, secrets: [odd] },
    { ...bad, secrets: [{ name: "not a name!", value: canaries.make("secret of a bad name") }] },
    { ...bad, secrets: canaries.make("a string instead of secrets") },
    { ...bad, source: "nothing" },
    `{"secrets": "${canaries.make("broken JSON")}`,
  ]) {
    const { status } = await ask("POST", "/v2/deployments", refused);
    assert.ok(status >= 400 && status < 500, `${status}`);
  }
  const { active_revision_id, url } = (await ask("GET", `/v2/deployments/${good.body.id}`)).body;
  const made = { deployment_id: good.body.id, revision_id: active_revision_id, upload_id: "" };
  await uploadFlow(context);
  return { ...made, agentUrl: url, own };
}

async function uploadFlow({ ask, canaries }: FlowContext): Promise<void> {
  const secrets = [{ name: "KEY", value: canaries.make("secret of an upload") }];
  const body = {
    name: randomUUID(),
    source: "internal_source",
    source_config: {},
    source_revision_config: {},
    secrets,
  };
  const { id } = (await ask("POST", "/v2/deployments", body)).body;
  const path = `/v2/deployments/${id}/upload-url`;
  const gives = ({ upload_url: url }: { upload_url: string }) => ({
    "signature of an upload": new URL(url).searchParams.get("signature") as string,
  });
  const { pathname, search } = new URL((await ask("POST", path, undefined, { gives })).body.upload_url);
  await ask("PUT", pathname + search, "no archive", { key: "" });
  await ask("PUT", `${pathname}${search}0`, "no archive", { key: "" });
}

/** Waits until the latest revision has a final status. */
async function ended({ ask }: FlowContext, deploymentId: string) {
  return eventually(
    async () => (await ask("GET", `/v2/deployments/${deploymentId}/revisions?limit=1`)).body.resources[0],
    ({ status }) => /DEPLOYED|FAILED|SKIPPED|INTERRUPTED/.test(status),
    { timeoutMs: 120_000 },
  );
}

/** Stores credentials of other systems: code hosts, webhooks, OAuth providers and the tokens of their users. */
export async function credentialFlows({ ask, canaries, url, texts }: FlowContext): Promise<Made> {
  const integration = {
    ...{ host: "gitlab", name: "host", url: "https://git.invalid/acme" },
    token: canaries.make("token of a code host"),
  };
  const secretOf = ({ webhook_secret }: { webhook_secret: string }) => webhook_secret;
  const host = await ask("POST", "/v2/integrations", integration, {
    gives: (body) => ({ "webhook secret of a host": secretOf(body) }),
  });
  const atHost = `/v2/integrations/${host.body.id}`;
  await ask("PATCH", atHost, { token: canaries.make("later token of a code host") });
  await ask("PATCH", atHost, { token: [canaries.make("token of the wrong type")] });
  await ask("PATCH", atHost, { ssh_key: canaries.make("invalid SSH key") });
  const chosen = { webhook_secret: canaries.make("webhook secret of our choice") };
  await ask("POST", `${atHost}/webhook-secret`, chosen, { gives: (body) => ({ "chosen secret": secretOf(body) }) });
  const forged = { "x-gitlab-token": canaries.make("forged webhook token"), "x-gitlab-event": "Push Hook" };
  await ask("POST", `/v1/integrations/${host.body.id}/webhook`, {}, { key: "", headers: forged });

  const hook = { url: `https://hooks.invalid/${canaries.make("path of a webhook")}` };
  const secret = (body: { secret: string }) => ({ "secret of a webhook": body.secret.replace("whsec_", "") });
  // Admins see the full address.
  const gives = (body: { secret: string; url: string }) => ({ ...secret(body), "address of a webhook": body.url });
  const webhook = await ask("POST", "/v2/webhooks", hook, { gives });
  await ask("POST", `/v2/webhooks/${webhook.body.id}/secret`, undefined, { gives: secret });
  const delivery = await ask("POST", `/v2/webhooks/${webhook.body.id}/test`);

  const provider_id = `p-${randomUUID()}`;
  const endpoints = { auth_url: "https://127.0.0.1:1/authorize", token_url: "https://127.0.0.1:1/token" };
  const client = { client_id: "c", client_secret: canaries.make("OAuth client secret") };
  await ask("POST", "/v2/auth/providers", { provider_id, name: "Example", ...client, ...endpoints });
  await ask("PATCH", `/v2/auth/providers/${provider_id}`, { client_secret: canaries.make("later client secret") });
  const user = { headers: userHeaders("alice") };
  const tokens = (who: string) => ({
    access_token: canaries.make(`access token of ${who}`),
    refresh_token: canaries.make(`refresh token of ${who}`),
    expires_in_seconds: 1,
  });
  const imported = await ask("POST", "/v2/auth/tokens/import", { provider_id, ...tokens("alice") }, user);
  await ask("POST", "/v2/auth/tokens/import", { provider_id, access_token: [canaries.make("odd token")] }, user);
  await ask("POST", `/v2/auth/agents/bot/providers/${provider_id}/tokens`, tokens("an agent"), user);
  const begun = await ask(
    "POST",
    "/v2/auth/authenticate",
    { provider: provider_id, scopes: ["read"], user_id: "bob" },
    { gives: ({ url }) => ({ "state of a sign-in": new URL(url).searchParams.get("state") as string }) },
  );
  const state = new URL(begun.body.url).searchParams.get("state") as string;
  const code = canaries.make("code of a sign-in");
  const came = await fetch(`${url}/v2/auth/callback/${provider_id}?code=${code}&state=${state}`, {
    redirect: "manual",
  });
  texts.push(await came.text(), JSON.stringify([...came.headers]));
  const { token_id } = imported.body;
  const ids = { integration_id: host.body.id, webhook_id: webhook.body.id, delivery_id: delivery.body.id };
  return { ...ids, provider_id, token_id, agent_id: "bot", auth_id: begun.body.auth_id };
}

/** Sends requests to an agent and to a missing one. Pierhead must not record what they contain. */
export async function gatewayFlows({ canaries, texts, url }: FlowContext, agentUrl: string): Promise<void> {
  for (const address of [agentUrl, `${url}/d/nobody-there`]) {
    const query = `?token=${canaries.make("query of a call")}`;
    const answer = await fetch(`${address}/nothing${query}`, {
      method: "POST",
      body: canaries.make("body of a call"),
      headers: {
        authorization: `Bearer ${canaries.make("authorization of a call")}`,
        cookie: `session=${canaries.make("cookie of a call")}`,
      },
    });
    texts.push(await answer.text(), JSON.stringify([...answer.headers]));
  }
  const broken = await fetch(`${agentUrl}/exit?${canaries.make("query of a call that kills")}`).catch(() => undefined);
  if (broken !== undefined) texts.push(await broken.text());
}
