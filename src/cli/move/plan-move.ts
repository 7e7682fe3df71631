import { isSettled } from "../../client/client.ts";
import type { CreateDeployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { groupNamesOf } from "../declaration/declared-groups.ts";
import { checkReadable } from "../declaration/readable.ts";
import { newestRevision } from "../deployments/find-deployment.ts";
import { placementOf } from "../deployments/find-listener.ts";
import { givenSizes } from "../deployments/given-sizes.ts";
import { CliFailure } from "../failure.ts";
import { everyPage } from "../terminal/choose.ts";
import { harmless } from "../terminal/terminal.ts";
import { shortId } from "../terminal/text.ts";
import { type AgentDatabase, findDatabase } from "./agent-database.ts";
import { commandFor, contextOption, movedFrom, type Sides } from "./sides.ts";
import { pinnedImage, targetBody } from "./target-body.ts";

/** What a move will do. */
export interface MovePlan {
  serving: Revision;
  body: CreateDeployment;
  /** Of the old deployment. */
  database: AgentDatabase;
  /** Sentences for the user. */
  lines: string[];
}

/** Reads what a move needs, before it changes anything. @throws CliFailure for what cannot move, with the next step */
export async function planMove(sides: Sides): Promise<MovePlan> {
  const { from, source, options } = sides;
  const serving = await servingRevision(sides);
  refuseSource(sides, serving);
  await checkReadable(from, source, "copied");
  const database = await findDatabase(from, source, { end: "from", kubectl: options.fromKubectl });
  const { names: groups, ids: groupIds } = await groupsAt(sides);
  const settings = {
    ...source.source_config,
    resource_spec: await givenSizes(await from.client(), source, from.signal),
  };
  const body = targetBody({
    ...{ source: { ...source, source_config: settings }, serving, groupIds, name: sides.targetName },
    placement: await placementAt(sides),
    integrationId: integrationAt(sides),
  });
  return { serving, body, database, lines: linesOf(sides, { serving, groups, database }) };
}

/** Returns the revision that serves. @throws CliFailure without one, or while another one is under way */
async function servingRevision({ from, source }: Sides): Promise<Revision> {
  const { name, id, active_revision_id: active } = source;
  if (active === null) {
    throw new CliFailure(`No revision of ${name} serves, so there is nothing to move.`, {
      hints: [`See why: pierhead why ${name}`],
    });
  }
  const newest = await newestRevision(from, source);
  if (!isSettled(newest.status)) {
    throw new CliFailure(`Revision ${shortId(newest.id)} of ${name} is ${newest.status}.`, {
      hints: [`Wait for it: pierhead status ${name} --watch`, `Or cancel it: pierhead cancel ${name}`],
    });
  }
  const client = await from.client();
  return client.getRevision({ deployment_id: id, revision_id: active }, { signal: from.signal });
}

function refuseSource({ source: { name, source } }: Sides, { engine }: Revision): void {
  if (source === "internal_source" || source === "internal_docker") {
    const what = source === "internal_source" ? "an uploaded directory" : "an image in the registry of its server";
    throw new CliFailure(`${name} runs ${what}, which belongs to this deployment alone.`, {
      hints: [
        source === "internal_source"
          ? "Push the directory to a git repository and deploy that, or deploy the directory at the target."
          : "Push the image to a registry that both reach, and deploy it with --image.",
        "Then copy the database: docs/guides/moving.md",
      ],
    });
  }
  if (engine !== "file" && engine !== "memory") return;
  throw new CliFailure(`${name} keeps its threads in ${engine === "file" ? "files" : "memory"}, which do not move.`, {
    hints: [
      `Move them to PostgreSQL first: pierhead change ${name} --engine ${engine === "file" ? "postgres" : "aegra"}`,
      "It needs a PostgreSQL: docs/guides/databases.md",
    ],
  });
}

/** Returns the variable groups by name, and their ids at the target. @throws CliFailure for one that the target lacks */
async function groupsAt({ from, to, source, options }: Sides): Promise<{ names: string[]; ids: string[] }> {
  const names = await groupNamesOf(await from.client(), source, from.signal);
  if (names.length === 0) return { names, ids: [] };
  const client = await to.client();
  const known = await everyPage((page) => client.listVariableGroups(page, { signal: to.signal }));
  const missing = names.filter((name) => !known.some((group) => group.name === name));
  if (missing.length > 0) {
    throw new CliFailure(`The target lacks the variable group ${missing.map(harmless).join(", ")}.`, {
      because: "A group belongs to its workspace, and its values may differ there.",
      hints: missing.map(
        (name) => `Create it: pierhead groups set ${harmless(name)} VARIABLE${contextOption(options)}`,
      ),
    });
  }
  return { names, ids: names.flatMap((name) => known.filter((group) => group.name === name).map(({ id }) => id)) };
}

/** Returns where the new deployment runs: as the options say, otherwise on a listener with the same name, or on the server. */
async function placementAt({ from, to, source, options }: Sides) {
  const { toListener, toWhere, toNamespace } = options;
  const { listener_id: listenerId, listener_config: config } = source.source_config;
  const client = await to.client();
  if (toListener !== undefined || toWhere !== undefined || listenerId === null) {
    const given = {
      ...(toListener !== undefined && { listener: toListener }),
      ...(toWhere !== undefined && { where: toWhere }),
      ...(toNamespace !== undefined && { namespace: toNamespace }),
    };
    return placementOf(client, given, to.signal);
  }
  const calls = await from.client();
  const { compute_id: listener } = await calls.getListener({ listener_id: listenerId }, { signal: from.signal });
  const namespace = toNamespace ?? config?.k8s_namespace;
  return placementOf(client, { listener, ...(namespace != null && { namespace }) }, to.signal);
}

/** Integrations belong to a control plane. @throws CliFailure for a private repository without one at the target */
function integrationAt({ source, options }: Sides): string | null {
  const { integration_id: id } = source.source_config;
  if (options.toIntegration !== undefined) return options.toIntegration;
  if (id === null || options.toContext === undefined) return id;
  throw new CliFailure(`The repository of ${source.name} is private. The target needs its own integration for it.`, {
    hints: [
      `List those of the target: pierhead integrations list${contextOption(options)}`,
      "Then add: --to-integration ID",
    ],
  });
}

/** Returns what is created, what is copied, what callers notice, what stays behind, and how to go back. */
function linesOf(
  sides: Sides,
  { serving, groups, database }: { serving: Revision; groups: string[]; database: AgentDatabase },
): string[] {
  const { source, targetName, target, options } = sides;
  const { name, secrets, secret_references: references } = source;
  const there = options.toContext === undefined ? "in this control plane" : `at the context ${options.toContext}`;
  const variables = secrets.filter((one) => one.name !== movedFrom).map((one) => one.name);
  const values = variables.length === 0 ? "no variables" : `the values of ${variables.join(", ")}`;
  const isResumed = target !== undefined;
  return [
    `${isResumed ? "Go on with" : "Create"} ${targetName} ${there}: ${describeCode(serving)}, with ${values}.`,
    ...(groups.length > 0 ? [`It uses the variable groups of the target: ${groups.join(", ")}.`] : []),
    ...(references?.length
      ? [`Its namespace needs the Secrets ${references.map((one) => one.secret_name).join(", ")}.`]
      : []),
    `Wait until ${targetName} is deployed. ${name} serves meanwhile.`,
    ...databaseLines(name, targetName, database),
    `Check ${targetName}. Callers stay at the old address until you lead them to the new one.`,
    "Not moved: Redis, files, logs, tags, alert rules, users' tokens.",
    `Back, until --finish: ${commandFor(sides, "--back")}`,
  ].map(harmless);
}

function databaseLines(name: string, targetName: string, { kind }: AgentDatabase): string[] {
  if (kind === "none") return [`${name} has no PostgreSQL of this server, so no data is copied.`];
  if (kind === "custom")
    return ["Both use the PostgreSQL of POSTGRES_URI_CUSTOM, so no data is copied. The target must reach it."];
  if (kind === "byHand")
    return ["The PostgreSQL is in a cluster: the next commands are printed, and --continue goes on after them."];
  return [
    `Make the PostgreSQL of ${name} read-only, copy it, and compare the rows of each table. From here ${name} refuses writes.`,
    `Restart ${targetName} on the copy. If a step fails, ${name} takes writes again.`,
  ];
}

function describeCode(serving: Revision): string {
  const { repo_commit_sha: sha, repo_ref: ref } = serving.source_revision_config;
  if (sha !== null) return `commit ${sha.slice(0, 8)}`;
  return pinnedImage(serving) ?? ref ?? "the template";
}
