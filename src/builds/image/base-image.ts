import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { labels, stateMount } from "../../compute/docker/replicas/container.ts";
import type { BaseImages } from "../build.ts";
import { agentServers, postgresServer } from "../node/agent-servers.ts";
import { readEngine } from "../node/postgres-engine.ts";
import type { BuildContext } from "../worker/run-command.ts";
import {
  agentUser,
  type Instruction,
  ownDir,
  plain,
  preloadPrograms,
  programExtension,
  stepsProgram,
  tidyProgram,
} from "./dockerfile.ts";
import { type Bases, readCertificates, type UsedBase } from "./make-base.ts";

/** Directory of the agent server in an image. */
export const toolchainDir = `${ownDir}/toolchain`;

/** Directory of the engine on PostgreSQL in an image, beside its packages. */
export const imageEngineDir = `${toolchainDir}/engine`;

/** The program that starts a LangGraph.js agent. */
export const startProgram = "compute/docker/entrypoints/langgraph-js-start";

/** The program that replaces the server of the base image when the project's packages need an older one. */
export const fitProgram = "builds/image/fit-server";

/** Pierhead's programs for each kind of base, relative to `src`. Their imports come along. */
const programsOf = {
  command: [tidyProgram, stepsProgram, ...preloadPrograms],
  "langgraph-js": [
    tidyProgram,
    stepsProgram,
    startProgram,
    // Loaded by their paths.
    ...["shim", "probe"].map((name) => `compute/process/langgraph/langgraph-js-${name}`),
    fitProgram,
  ],
};
/** Files that the programs for LangGraph.js read or import beside their own modules. */
const dataFiles = [
  "compute/process/langgraph/langgraph-js-probe-graph.mjs",
  ...[...agentServers.map(({ version }) => version), `postgres-${postgresServer.version}`].flatMap((server) =>
    ["package", "package-lock"].map((name) => `builds/toolchains/langgraph-js-${server}.${name}.json`),
  ),
];

/** On PostgreSQL, the base has the same programs with another server. */
export type BaseKind = keyof typeof programsOf | "langgraph-js-postgres";

const programKindOf = (kind: BaseKind) => (kind === "langgraph-js-postgres" ? "langgraph-js" : kind);

/** Public name of the base image for LangGraph.js agents, on which users can build (`langgraph deploy --base-image`). */
export const publicBaseName = "pierhead/langgraph-js";

/**
 * Returns the base on which JavaScript agents are built: Node with the operator's certificates, a directory for state that
 * the agent's user may write to and, for LangGraph.js, the agent server.
 */
export async function baseImage(
  bases: Bases,
  target: BaseImages,
  { kind, context }: { kind: BaseKind; context: BuildContext },
): Promise<UsedBase> {
  const certificates = await readCertificates(context.env);
  return bases.use({
    kind,
    people: peopleOf[kind],
    from: target.nodeImage,
    instructions: baseInstructions(target, kind, certificates !== null),
    files: await filesOf(kind, certificates),
    ...(kind === "langgraph-js" && { publicName: publicBaseName }),
  });
}

const peopleOf: Record<BaseKind, string> = {
  command: "servers",
  "langgraph-js": "LangGraph.js agents",
  "langgraph-js-postgres": "LangGraph.js agents on PostgreSQL",
};

function baseInstructions(target: BaseImages, kind: BaseKind, hasCertificates: boolean): Instruction[] {
  const [user] = agentUser.split(":");
  const makeState = `const d=${JSON.stringify(stateMount)},f=require("fs");f.mkdirSync(d,{recursive:true});f.chownSync(d,${user},${user});f.chmodSync(d,0o1777)`;
  const variables = [
    "npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false npm_config_progress=false",
    ...(hasCertificates ? [`NODE_EXTRA_CA_CERTS=${ownDir}/certificates.pem`] : []),
  ];
  return [
    plain(`FROM ${target.nodeImage}`),
    plain(`LABEL "${labels.installation}"="${target.installationId}"`),
    plain(`RUN ${JSON.stringify(["node", "-e", makeState])}`),
    plain(`COPY programs/ ${ownDir}/`),
    ...(hasCertificates ? [plain(`COPY certificates.pem ${ownDir}/`)] : []),
    plain(`ENV ${variables.join(" ")}`),
    ...(kind === "command" ? [] : installServer),
    ...(kind === "langgraph-js" ? startOfDerived : []),
    ...(kind === "langgraph-js-postgres" ? [plain(`COPY engine/ ${imageEngineDir}/`)] : []),
  ];
}

/**
 * Start command without a langgraph.json. Derived images may run as any user, so every user may write to the state
 * directory.
 */
const commandOfDerived = ["node", `${ownDir}/${startProgram}${programExtension}`, "", stateMount, toolchainDir];

const startOfDerived: Instruction[] = [
  plain(`LABEL "${labels.state}"="exclusive"`),
  plain(`CMD ${JSON.stringify(commandOfDerived)}`),
];

const installServer: Instruction[] = [
  plain(`WORKDIR ${toolchainDir}`),
  plain("COPY toolchain/ ./"),
  {
    text: `RUN ["node", "${ownDir}/${tidyProgram}${programExtension}", "npm", "install", "--ignore-scripts"]`,
    runs: { shown: "npm install (of the LangGraph.js server)", reason: "ToolchainFailed" },
  },
  plain("WORKDIR /"),
];

/** Returns the text of the files of Pierhead that a base image contains, by their names relative to `src`. */
export async function programFilesOf(kind: BaseKind): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const add = async (file: string): Promise<void> => {
    if (file in found) return;
    found[file] = ""; // before the imports, which may form a circle
    const text = await readFile(fileURLToPath(new URL(`../../${file}`, import.meta.url)), "utf8");
    found[file] = text;
    for (const target of importsOf(text)) await add(path.posix.join(path.posix.dirname(file), target));
  };
  for (const program of programsOf[programKindOf(kind)])
    await add(path.extname(program) === "" ? `${program}${programExtension}` : program);
  for (const file of kind === "command" ? [] : dataFiles) await add(file);
  return Object.fromEntries(Object.entries(found).sort());
}

/** Imports of types do not exist at run time. */
const importsOf = (text: string) =>
  [...text.matchAll(/^(?:import|export) (?!type\b)[^;]*?from "(\.[^"]+)"/gm)].map(([, target = ""]) => target);

async function filesOf(kind: BaseKind, certificates: string | null): Promise<Record<string, string>> {
  const programs = Object.entries(await programFilesOf(kind)).map(([file, text]) => [`programs/${file}`, text]);
  const isOnPostgres = kind === "langgraph-js-postgres";
  const server = isOnPostgres ? postgresServer : agentServers[0];
  const engine = isOnPostgres ? Object.entries(await readEngine()) : [];
  return {
    ...Object.fromEntries(engine.map(([file, text]) => [`engine/${file}`, text])),
    ...Object.fromEntries(programs),
    "programs/package.json": JSON.stringify({ type: "module" }),
    ...(certificates === null ? {} : { "certificates.pem": certificates }),
    ...(kind === "command"
      ? {}
      : {
          "toolchain/package.json": JSON.stringify(server?.manifest),
          "toolchain/package-lock.json": JSON.stringify(server?.lock),
        }),
  };
}
