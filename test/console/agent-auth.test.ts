import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { consoleHeader } from "../../src/contract/administration/session.ts";
import { addressOf, assertNoBrowserErrors, startWorld } from "./world.ts";

/** An agent that checks keys of its own, and gives the pages the answers of an agent without runs. */
const server = `
import { createServer } from "node:http";
createServer((request, response) => {
  const isKnown = request.headers.authorization === "Bearer of-the-agent" && request.headers["x-team"] === "blue";
  const { pathname } = new URL(request.url, "http://localhost");
  const send = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (pathname === "/ok") return send(200, { ok: true });
  if (!isKnown) return send(401, { detail: "Invalid token" });
  if (pathname === "/assistants/search") return send(200, [{ assistant_id: "a1", graph_id: "guarded" }]);
  if (pathname === "/threads/search") return send(200, []);
  const nodes = ["__start__", "answer", "__end__"].map((id) => ({ id, type: "runnable" }));
  return send(200, { nodes, edges: [{ source: "__start__", target: "answer" }, { source: "answer", target: "__end__" }] });
}).listen(process.env.PORT);
`;

const templates = await mkdtemp(path.join(tmpdir(), "pierhead-templates-"));
after(() => rm(templates, { recursive: true, force: true }));
const template = path.join(templates, "guarded");
await cp("templates/node-server", template, { recursive: true });
await writeFile(path.join(template, "server.js"), server);
const about = await readFile(path.join(template, "template.json"), "utf8");
await writeFile(path.join(template, "template.json"), about.replace('"id": "node-server"', '"id": "guarded"'));
const world = await startWorld({ PIERHEAD_TEMPLATES_DIR: templates });
const { pierhead, open, findings } = world;
after(() => assertNoBrowserErrors(world));

test("sends the headers that a user enters for an agent with its own authentication, and forgets them on reload", async () => {
  const made = await pierhead.client.createDeployment({
    body: {
      name: "guarded",
      source: "internal_template",
      source_config: { template_id: "guarded", deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
  const page = await open({ path: `${addressOf(made)}/threads`, width: 1_400 });
  await page.getByText("It answered 401: Invalid token. Enter the headers that its clients send.").waitFor();
  assert.deepEqual(await findings(page), []);
  const give = async (text: string) => {
    await page.getByLabel("Headers, one per line").fill(text);
    await page.getByRole("button", { name: "Use these headers" }).click();
  };
  await page.getByRole("button", { name: "Headers" }).click();
  await give("Bearer of-the-agent");
  await page.getByText('"Bearer of-the-agent" is not a header. Write a name, a colon and a value.').waitFor();
  assert.deepEqual(await findings(page), []);
  await give("Authorization: Bearer of-the-agent\nX-Team: blue\n");
  await page.getByRole("heading", { name: "No threads yet" }).waitFor();

  await page.getByRole("link", { name: "Open the playground" }).click();
  await page.getByRole("button", { name: /^Headers/ }).click();
  assert.match(await page.getByLabel("Headers, one per line").inputValue(), /^authorization: Bearer of-the-agent\n/);
  await give("Authorization: Bearer of-another-agent");
  await page.getByText("It answered 401: Invalid token.").waitFor();
  await page.reload();
  await page.getByText("It answered 401: Invalid token.").waitFor();
  await page.getByRole("button", { name: "Headers", exact: true }).click();
  assert.equal(await page.getByLabel("Headers, one per line").inputValue(), "");

  // The refusals of Pierhead itself are none of the agent's.
  await page.evaluate(async (header) => {
    await fetch(new URL("v2/session", document.baseURI), { method: "DELETE", headers: { [header]: "1" } });
  }, consoleHeader);
  // Other calls of the page would notice the end of the session, too.
  await page.route(/\/v2\/(?!session|deployments\/[^/]+\/agent\/)/, () => {});
  await give("Authorization: Bearer of-the-agent");
  await page.getByLabel("API key").waitFor();
});
