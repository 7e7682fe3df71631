import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { nameOfAgent } from "../../src/domain/names.ts";
import { type CommitStatus, putCommitStatus } from "../../src/integrations/commit-status.ts";

test("keeps the statuses of deployments with a common name prefix separate at every host", async (context) => {
  const sent: { host: string; key: string }[] = [];
  let host = "";
  const server = createServer(async (request, response) => {
    const { key, context: name, name: gitlabName } = (await json(request)) as Record<string, string>;
    sent.push({ host, key: key ?? name ?? gitlabName ?? "" });
    response.writeHead(201).end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const repoUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/scm/acme/bot.git`;
  const agentId = randomUUID();
  const names = ["bot", nameOfAgent(agentId, "production"), nameOfAgent(agentId, "staging")];
  const tell = (kind: "github" | "gitea" | "gitlab" | "bitbucket", name: string, state: CommitStatus["state"]) => {
    host = kind;
    const about = { repoUrl, commitSha: "a".repeat(40), link: "https://p.example/x", title: "Deployed", text: "" };
    const access = { host: kind, token: "t0ken", allowPrivateNetwork: true };
    return putCommitStatus(access, { ...about, name, state }, AbortSignal.timeout(10_000));
  };
  for (const kind of ["github", "gitea", "gitlab", "bitbucket"] as const) {
    for (const name of names) for (const state of ["in_progress", "success"] as const) await tell(kind, name, state);
  }
  for (const [kind, said] of Map.groupBy(sent, (one) => one.host)) {
    const keys = new Set(said.map(({ key }) => key));
    assert.equal(keys.size, names.length, `${kind}: ${[...keys].join(", ")}`);
    assert.ok(keys.has("pierhead/bot"));
    if (kind === "bitbucket") for (const key of keys) assert.ok(key.length <= 40, key);
  }
});
