import { setTimeout as sleep } from "node:timers/promises";
import { type Filled, fillDeployments } from "./fill.ts";
import type { BenchRun, BenchServer, DatabaseKind, Installation } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";
import { runLoad } from "./load.ts";
import { httpRequest } from "./requests.ts";

interface Plan {
  few: number;
  many: number;
  rounds: number;
  /** Requests of each kind in each round, on either side. */
  askMs: number;
  idleMs: number;
}

const plans: Record<BenchRun["size"], Record<DatabaseKind, Plan>> = {
  small: {
    postgres: { few: 1_000, many: 5_000, rounds: 1, askMs: 24, idleMs: 1_000 },
    embedded: { few: 1_000, many: 5_000, rounds: 1, askMs: 24, idleMs: 1_000 },
  },
  full: {
    postgres: { few: 1_000, many: 1_000_000, rounds: 3, askMs: 400, idleMs: 120_000 },
    // More deployments than one machine holds.
    embedded: { few: 1_000, many: 50_000, rounds: 3, askMs: 400, idleMs: 60_000 },
  },
};

/** Untimed requests before the first timed one: they compile code, plan statements and load pages into memory. */
const warmUpMs = { small: 24, full: 1_000 };

/** Compares lists of very many deployments with lists of few, and measures what very many cost while idle: G3, G4a, G9. */
export async function storeBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  const kinds = run.size === "small" ? run.kinds.slice(0, 1) : run.kinds;
  for (const kind of kinds) lines.push(...(await storeLines(run, kind, plans[run.size][kind])));
  return lines;
}

async function storeLines(run: BenchRun, kind: DatabaseKind, plan: Plan): Promise<BenchLine[]> {
  await using few = await run.install(kind);
  await using many = await run.install(kind);
  const fewFilled = await fill(few, plan.few);
  const manyFilled = await fill(many, plan.many);
  const sides = [
    { installation: few, filled: fewFilled, server: await few.start("server", settled) },
    { installation: many, filled: manyFilled, server: await many.start("server", settled) },
  ] as const;
  try {
    const names = { kind, plan, amount: `${plan.many} deployments against ${plan.few}, on ${kind}` };
    const pages = await pageLines(run, sides, names);
    return [...pages, ...(await idleLines(sides, names))];
  } finally {
    for (const { server } of sides) await server.stop();
  }
}

/** No compute, so only the control plane's own work remains. */
const settled = { PIERHEAD_COMPUTE: "none" };

async function fill(installation: Installation, count: number): Promise<Filled> {
  const { db, close } = await installation.open();
  return await fillDeployments(db, installation, count).finally(close);
}

interface Side {
  installation: Installation;
  filled: Filled;
  server: BenchServer;
}

type Names = { kind: DatabaseKind; plan: Plan; amount: string };

interface Question {
  name: string;
  /** Path and query. */
  ask(side: Side): string;
  ratioMax: number;
  /** The request for the few, which have no page that deep. */
  floor?: string;
}

const list = (query: string) => `/v2/deployments?limit=100${query}`;
const first = (name: string, query: (side: Side) => string): Question => ({
  name,
  ask: (side) => list(query(side)),
  ratioMax: 1.5,
});

/** Every filter of the list: with a common value, and with a rare one where that takes another plan. */
const questions: Question[] = [
  first("the first page", () => ""),
  ...["created_at", "updated_at", "name", "status"].flatMap((by) =>
    ["asc", "desc"].map((order) => first(`by ${by} ${order}`, () => `&sort_by=${by}&sort_order=${order}`)),
  ),
  first("of one name", () => "&name=search-t002-agent-0000002"),
  first("name contains a common text", () => "&name_contains=agent"),
  first("name contains a text of 1 in 10", () => "&name_contains=Billing"),
  first("name contains the text of a team", () => "&name_contains=-t007-"),
  first("name contains a unique text", () => "&name_contains=agent-0000777"),
  first("name contains an unused text", () => "&name_contains=no-such-name"),
  first("name contains a common text, by updated_at", () => "&name_contains=agent&sort_by=updated_at"),
  first("READY", () => "&status=READY"),
  first("UNKNOWN", () => "&status=UNKNOWN&limit=1"),
  first("on other data planes", () => "&remote_reconciled=true"),
  first("on the built-in data plane", () => "&remote_reconciled=false"),
  first("version of a team", () => "&image_version=0.4.7"),
  first("version of 10", () => "&image_version=0.0.1-rc.1"),
  first("type prod", () => "&deployment_type=prod"),
  first("type of 10", () => "&deployment_type=dev_free"),
  first("tag of 1 of 3", ({ filled }) => `&tag_value_ids=${filled.tags.stage}`),
  first("tag of a team", ({ filled }) => `&tag_value_ids=${filled.tags.team}`),
  first("tag of 10", ({ filled }) => `&tag_value_ids=${filled.tags.rare}`),
  first("two tags", ({ filled }) => `&tag_value_ids=${filled.tags.stage},${filled.tags.rare}`),
  first("one id", ({ filled }) => `&deployment_ids=${filled.deploymentId}`),
  first("at an address", ({ filled }) => `&url=${encodeURIComponent(filled.customUrl)}`),
  first("of an agent", ({ filled }) => `&agent_id=${filled.agentId}`),
  first("environment production", () => "&agent_environment=production"),
  first("environment staging", () => "&agent_environment=staging"),
  { name: "offset 800", ask: () => list("&offset=800"), ratioMax: 3, floor: list("") },
  { name: "offset 10,000", ask: () => list("&offset=10000"), ratioMax: 3, floor: list("") },
  {
    name: "audit log from its middle, by cursor",
    ask: ({ filled }) => `/v2/admin/audit-log?page_size=100&cursor=${filled.auditMiddle}`,
    ratioMax: 2,
    floor: "/v2/admin/audit-log?page_size=100",
  },
  { name: "events of a workspace, the first 100", ask: () => "/v2/events?limit=100", ratioMax: 1.5 },
];

async function pageLines({ size }: BenchRun, sides: readonly [Side, Side], names: Names): Promise<BenchLine[]> {
  const { plan, kind, amount } = names;
  const lines: BenchLine[] = [];
  const all: number[] = [];
  for (const question of questions) {
    const rounds: { few: number[]; many: number[] }[] = [];
    for (let round = -1; round < plan.rounds; round += 1) {
      const taken = await askBoth(sides, question, round < 0 ? warmUpMs[size] : plan.askMs);
      if (round >= 0) rounds.push(taken);
    }
    all.push(...rounds.flatMap(({ many }) => many));
    lines.push(
      benchLine({
        goal: "G3",
        name: `page of 100, ${question.name}: median, of ${amount}`,
        floor: median(rounds.map(({ few }) => median(few))),
        ours: median(rounds.map(({ many }) => median(many))),
        unit: "ms",
        target: { ratioMax: question.ratioMax },
      }),
    );
  }
  const name = `p99 of all these pages together, of ${plan.many}, on ${kind}`;
  const p99 = percentile(all, 99);
  return [...lines, benchLine({ goal: "G3", name, floor: null, ours: p99, unit: "ms", target: { oursMax: 50 } })];
}

/** Runs both in turns, several times, because the machine may be busy for a while. */
async function askBoth(sides: readonly [Side, Side], question: Question, durationMs: number) {
  const [few, many] = sides;
  const taken = { few: [] as number[], many: [] as number[] };
  for (let turn = 0; turn < turns; turn += 1) {
    taken.few.push(...(await ask(few, question.floor ?? question.ask(few), durationMs / turns)));
    taken.many.push(...(await ask(many, question.ask(many), durationMs / turns)));
  }
  return taken;
}

const turns = 4;

async function ask({ installation, server }: Side, path: string, durationMs: number): Promise<number[]> {
  const request = httpRequest("GET", path, installation.adminKey);
  const { latenciesMs, failed } = await runLoad({ port: server.port, request, connections: 1, durationMs });
  if (failed > 0) throw new Error(`${failed} of ${latenciesMs.length} requests for ${path} failed`);
  return latenciesMs;
}

/** Runs both at the same time. One minute contains a resync. */
async function idleLines(sides: readonly [Side, Side], { plan, amount }: Names): Promise<BenchLine[]> {
  await Promise.all(sides.map(({ server }) => server.memory()));
  const begun = await Promise.all(sides.map(({ server }) => server.usage()));
  await sleep(plan.idleMs);
  const ended = await Promise.all(sides.map(({ server }) => server.usage()));
  const rssBytes = await Promise.all(sides.map(({ server }) => server.memory()));
  const used = ended.map((usage, index) => ({
    cpuPercent: ((usage.cpuMs - (begun[index]?.cpuMs ?? 0)) / plan.idleMs) * 100,
    queries: ((usage.queries - (begun[index]?.queries ?? 0)) / plan.idleMs) * 60_000,
    rssBytes: rssBytes[index] as number,
  }));
  const [few, many] = used as [(typeof used)[0], (typeof used)[0]];
  return [
    benchLine({
      goal: "G4a",
      name: `CPU of one core with nothing to do, ${amount}`,
      floor: few.cpuPercent,
      ours: many.cpuPercent,
      unit: "%",
      target: { oursMax: 2 },
    }),
    benchLine({
      goal: "G4a",
      name: `queries a minute with nothing to do, ${amount}`,
      floor: few.queries,
      ours: many.queries,
      unit: "1/min",
      target: { ratioMax: 1.1 },
    }),
    benchLine({
      goal: "G9",
      name: `memory of the control plane for each settled deployment that the few do not have, ${amount}`,
      floor: null,
      ours: Math.max(0, many.rssBytes - few.rssBytes) / 1_024 / (plan.many - plan.few),
      unit: "kB",
      target: { oursMax: 5 },
    }),
  ];
}
