import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import type { Client } from "../../src/client/client.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { TestServer } from "../support/server.ts";
import { addMetrics } from "./metric-samples.ts";
import { addRefundTemplate } from "./refund-template.ts";
import type { Shown } from "./screens.ts";
import { plainServer, type ShownCommit, startRepositories } from "./shown-repositories.ts";

/** Longer than a cold `npm install` of the agent server on a loaded machine. It is not a measurement. */
const timeoutMs = 400_000;

const brokenBuild = `console.log("checking types");
console.log("invoice.ts(3,20): error TS2307: Cannot find module './ledger.js'.");
process.exit(2);
`;

/** Commits of each repository, oldest first. Each is deployed. */
const histories: Record<string, ShownCommit[]> = {
  invoices: [
    { author: "Billing team", message: "Read invoices from the new ledger", files: { "build.js": brokenBuild } },
  ],
  orders: [
    { author: "Support lead", message: "Show the state of an order" },
    {
      author: "Returns team",
      message: "Route returns to the warehouse that sent them",
      files: { "routes.js": `export const warehouse = (order) => order.sentFrom;\n` },
    },
  ],
  "fraud-screen": [
    { author: "Platform team", message: "Score a payment in one call" },
    { author: "Payments team", message: "Ask the ledger for the balance", files: { "build.js": brokenBuild } },
  ],
  "voice-concierge": [{ author: "Voice team", message: "Say the room number only after the check" }],
  "nightly-digest": [{ author: "Platform team", message: "Send the digest in the language of the reader" }],
};

/** Adds the templates of the screenshots. Returns the settings of a server that offers them. */
export async function shownSettings(): Promise<Record<string, string>> {
  const templates = await mkdtemp(path.join(tmpdir(), "pierhead-templates-"));
  after(() => rm(templates, { recursive: true, force: true }));
  await cp("templates", templates, { recursive: true });
  await addRefundTemplate(templates);
  return { PIERHEAD_TEMPLATES_DIR: templates, PIERHEAD_ALLOW_PRIVATE_NETWORK: "true" };
}

/** Creates the deployments that the screenshots show. */
export async function makeShown(pierhead: TestServer): Promise<Omit<Shown, "threads">> {
  const { client } = pierhead;
  const repositories = await startRepositories();
  after(() => repositories[Symbol.asyncDispose]());
  const made: Record<string, Deployment> = {};
  for (const [name, commits] of Object.entries(histories)) {
    const { urlOf, commit } = repositories;
    for (const [index, one] of commits.entries()) {
      await commit(name, { ...one, files: { ...(index === 0 && plainServer), ...one.files } });
      const deployment = made[name];
      if (deployment === undefined) made[name] = await deployRepository(client, name, urlOf(name));
      else await revise(client, deployment.id, {});
    }
  }
  const { orders, invoices } = made;
  if (orders === undefined || invoices === undefined) throw new Error("the screenshots need both deployments");
  const secrets = [
    { name: "CURRENCY", value: "USD" },
    { name: "SHOP_URL", value: "https://shop.example.org" },
  ];
  await revise(client, orders.id, { secrets });
  const support = await deployTemplate(client, "support", "refunds");
  await addGroups(client, support);
  await makeSettings(client);
  await addDay(pierhead, orders.id, { usual: 60, errorsAt: [21, 400, 401] });
  await addDay(pierhead, made["fraud-screen"]?.id ?? "", { usual: 110, errorsAt: [30, 31, 32, 90, 91] });
  await addDay(pierhead, made["voice-concierge"]?.id ?? "", { usual: 9, errorsAt: [] });
  return { pierhead, orders, support, invoices };
}

async function deployRepository(client: Client, name: string, repo_url: string): Promise<Deployment> {
  const made = await client.createDeployment({
    body: {
      ...{ name, source: "github", secrets: [{ name: "CURRENCY", value: "EUR" }] },
      source_config: { repo_url, build_on_push: false, deployment_type: name === "nightly-digest" ? "dev" : "prod" },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await client.waitForRevision(latestOf(made), { timeoutMs });
  return made;
}

async function deployTemplate(client: Client, name: string, template_id: string): Promise<Deployment> {
  const made = await client.createDeployment({
    body: {
      ...{ name, source: "internal_template", source_revision_config: {} },
      source_config: { template_id, deployment_type: "dev" },
    },
  });
  await client.waitForRevision(latestOf(made), { timeoutMs });
  return made;
}

async function revise(
  client: Client,
  deployment_id: string,
  body: { secrets?: { name: string; value: string }[] },
): Promise<void> {
  const changed = await client.createRevision({ deployment_id, body });
  await client.waitForRevision({ deployment_id, revision_id: changed.id }, { timeoutMs });
}

const latestOf = ({ id, latest_revision_id }: Deployment) => ({
  deployment_id: id,
  revision_id: latest_revision_id ?? "",
});

async function addGroups(client: Client, support: Deployment): Promise<void> {
  const shared = async (name: string, variables: { name: string; value: string; is_secret?: boolean }[]) =>
    (await client.createVariableGroup({ body: { name, variables } })).id;
  const keys = ["OPENAI_API_KEY", "TAVILY_API_KEY"].map((name) => ({ name, value: "sk-1" }));
  const used = await shared("model-keys", keys);
  await shared("shop", [{ name: "SHOP_URL", value: "https://shop.example.org", is_secret: false }]);
  const list = { variable_group_ids: [used] };
  const grouped = await client.putDeploymentVariableGroups({ deployment_id: support.id, body: list });
  await client.waitForRevision(latestOf(grouped), { timeoutMs });
}

/** Creates what the settings pages show. None of the addresses exists. */
async function makeSettings(client: Client): Promise<void> {
  await client.createMember({ body: { email: "support@example.org", name: "Support lead", role: "admin" } });
  await client.createMember({ body: { email: "payments@example.org", name: "Payments team", role: "deployer" } });
  await client.createMember({ body: { email: "reader@example.org", role: "reader" } });
  await client.createApiKey({ body: { name: "ci", role: "deployer" } });
  await client.createApiKey({ body: { name: "dashboard", role: "reader" } });
  await client.createWebhook({ body: { url: "https://ci.invalid/pierhead", types: ["revision.status"] } });
  await client.createWebhook({ body: { url: "https://chat.invalid/hooks/x", format: "slack", description: "#ops" } });
  const labels = { region: "eu", gpu: "l4" };
  await client.createListener({ body: { compute_type: "k8s", compute_id: "eu-cluster", compute_config: {}, labels } });
  const git = { host: "gitlab" as const, name: "Our GitLab", url: "https://gitlab.invalid/acme", token: "glpat-0" };
  await client.createIntegration({ body: git });
}

/** A day of requests that rise and fall, with noise that is the same in each run. */
async function addDay(pierhead: TestServer, id: string, { usual, errorsAt }: { usual: number; errorsAt: number[] }) {
  const noise = (ago: number) => Math.abs(Math.sin(ago * 12.9898) * 43_758.5453) % 1;
  const requestsOf = (ago: number) =>
    Math.round(usual * (1 + 0.35 * Math.sin(ago / 190) + 0.2 * Math.sin(ago / 9) + 0.25 * noise(ago)));
  const minuteOf = (ago: number) => {
    const requests = requestsOf(ago);
    const slow = Math.round((requests / 18) * noise(ago + 7));
    const use = { cpu_cores: requests / (usual * 5), memory_mib: 140 + 12 * Math.sin(ago / 60) + 4 * noise(ago) };
    return { requests, errors: errorsAt.includes(ago) ? Math.round(requests / 7) : 0, slow, ...use };
  };
  await addMetrics(pierhead, id, minuteOf, dayMinutes);
}

const dayMinutes = 1_440;
