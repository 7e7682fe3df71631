import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Engine } from "../../compute/docker/engine/engine.ts";
import { labels, stateMount } from "../../compute/docker/replicas/container.ts";
import type { ImageTarget } from "../build.ts";
import manifest from "../toolchains/langgraph-js.package.json" with { type: "json" };
import lock from "../toolchains/langgraph-js.package-lock.json" with { type: "json" };
import type { BuildContext } from "../worker/run-command.ts";
import { agentUser, type Instruction, ownDir, plain, programExtension, tidyProgram } from "./dockerfile.ts";
import { makeBase, readCertificates } from "./make-base.ts";

/** Where the agent server lies in an image. */
export const toolchainDir = `${ownDir}/toolchain`;

/** The program that starts a LangGraph.js agent. */
export const startProgram = "compute/docker/entrypoints/langgraph-js-start";

/** Our programs with everything they import, from the root of `src`. */
const programsOf = {
  command: [tidyProgram],
  "langgraph-js": [
    tidyProgram,
    startProgram,
    ...["shim", "options", "persistence", "state"].map((name) => `compute/process/langgraph/langgraph-js-${name}`),
    "compute/process/langgraph/langgraph-config",
    "compute/process/system/processes",
  ],
};
export type BaseKind = keyof typeof programsOf;

/** The base of LangGraph.js agents under a name that people can build on (`langgraph deploy --base-image`). */
export const publicBaseName = "pierhead/langgraph-js";

/**
 * The image that agents in JavaScript are put on: Node with the operator's certificates, a place for state that the agent's
 * user may write to and, for LangGraph.js, the agent server.
 * @returns its name.
 */
export async function baseImage(
  engine: Engine,
  target: ImageTarget,
  { kind, context }: { kind: BaseKind; context: BuildContext },
): Promise<string> {
  const certificates = await readCertificates(context.env);
  const { name, isNew } = await makeBase(engine, target, context, {
    kind,
    people: kind === "command" ? "servers" : "LangGraph.js agents",
    from: target.nodeImage,
    instructions: baseInstructions(target, kind, certificates !== null),
    files: await filesOf(kind, certificates),
  });
  const tag = { repo: publicBaseName, tag: "latest" };
  if (isNew && kind === "langgraph-js") await engine.call("POST", `/images/${name}/tag`, { query: tag });
  return name;
}

function baseInstructions(target: ImageTarget, kind: BaseKind, hasCertificates: boolean): Instruction[] {
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
    ...(kind === "command" ? [] : serverInstructions),
  ];
}

/** Started without a langgraph.json; such images may run as any user, so each may write where their state lies. */
const startOfDerived = ["node", `${ownDir}/${startProgram}${programExtension}`, "", stateMount, toolchainDir];

const serverInstructions: Instruction[] = [
  plain(`WORKDIR ${toolchainDir}`),
  plain("COPY toolchain/ ./"),
  {
    text: `RUN ["node", "${ownDir}/${tidyProgram}${programExtension}", "npm", "install", "--ignore-scripts"]`,
    runs: { shown: "npm install (of the LangGraph.js server)", reason: "ToolchainFailed" },
  },
  plain("WORKDIR /"),
  plain(`LABEL "${labels.state}"="exclusive"`),
  plain(`CMD ${JSON.stringify(startOfDerived)}`),
];

async function filesOf(kind: BaseKind, certificates: string | null): Promise<Record<string, string>> {
  const programs = programsOf[kind].map(async (program) => {
    const file = `${program}${programExtension}`;
    return [`programs/${file}`, await readFile(fileURLToPath(new URL(`../../${file}`, import.meta.url)), "utf8")];
  });
  return {
    ...Object.fromEntries(await Promise.all(programs)),
    "programs/package.json": JSON.stringify({ type: "module" }),
    ...(certificates === null ? {} : { "certificates.pem": certificates }),
    ...(kind === "command"
      ? {}
      : { "toolchain/package.json": JSON.stringify(manifest), "toolchain/package-lock.json": JSON.stringify(lock) }),
  };
}
