import { createHash } from "node:crypto";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { labels, stateMount } from "../../compute/docker/container.ts";
import type { Engine } from "../../compute/docker/engine.ts";
import { builtRepository } from "../../compute/docker/images.ts";
import type { ImageTarget } from "../build.ts";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../run-command.ts";
import manifest from "../toolchains/langgraph-js.package.json" with { type: "json" };
import lock from "../toolchains/langgraph-js.package-lock.json" with { type: "json" };
import { packContext } from "./context.ts";
import { agentUser, type Instruction, ownDir, programExtension, tidyProgram } from "./dockerfile.ts";
import { buildInEngine } from "./engine-build.ts";

/** Where the agent server lies in an image. */
export const toolchainDir = `${ownDir}/toolchain`;

/** The program that starts a LangGraph.js agent. */
export const startProgram = "compute/docker/langgraph-js-start";

/** Our programs with everything they import, from the root of `src`. */
const programsOf = {
  command: [tidyProgram],
  "langgraph-js": [
    tidyProgram,
    startProgram,
    ...["shim", "options", "persistence", "state"].map((name) => `compute/process/langgraph-js-${name}`),
    "compute/process/langgraph-config",
    "compute/process/processes",
  ],
};
export type BaseKind = keyof typeof programsOf;

/**
 * The image that agents of one kind are put on: Node with the operator's certificates, a place for state that the agent's
 * user may write to and, for LangGraph.js, the agent server. It is made once and shared by all builds, and made again
 * when something in it changes, the operator's own Node image included.
 * @returns its name.
 */
export async function baseImage(
  engine: Engine,
  target: ImageTarget,
  { kind, context }: { kind: BaseKind; context: BuildContext },
): Promise<string> {
  const certificates = await readCertificates(context.env);
  const instructions = baseInstructions(target, kind, certificates !== null);
  const nodeImageId = await imageId(engine, target.nodeImage);
  const programs = await Promise.all(programsOf[kind].map((program) => readFile(programFile(program), "utf8")));
  const what = [nodeImageId, instructions.map(({ text }) => text), certificates, programs, kind === "command" || lock];
  const digest = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 16);
  const name = `${builtRepository(target.installationId)}:base-${kind}-${digest}`;
  if ((await engine.callUnless([404], "GET", `/images/${name}/json`)) !== undefined) return name;
  context.log.say(`Making the image that ${kind === "command" ? "servers" : "LangGraph.js agents"} are put on, once.`);
  const directory = path.join(path.dirname(context.sourceDir), "base");
  await layOut(directory, instructions, kind, certificates);
  const limits = { memoryMib: target.memoryMib, cpuCores: target.cpuCores, diskBytesMax: baseBytesMax };
  const build = { context: packContext(directory, ["."]), dockerfile: "Dockerfile", tag: name, labels: {} };
  await buildInEngine(engine, { ...build, instructions, limits }, context);
  await rm(directory, { recursive: true, force: true });
  if (kind === "langgraph-js")
    await engine.call("POST", `/images/${name}/tag`, { query: { repo: publicBaseName, tag: "latest" } });
  return name;
}

/** The agent server and what it needs are 135 MB. */
const baseBytesMax = 1024 * 1024 * 1024;

function baseInstructions(target: ImageTarget, kind: BaseKind, hasCertificates: boolean): Instruction[] {
  const plain = (text: string): Instruction => ({ text, runs: null });
  const [user] = agentUser.split(":");
  const makeState = `const d=${JSON.stringify(stateMount)},f=require("fs");f.mkdirSync(d,{recursive:true});f.chownSync(d,${user},${user})`;
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

/** The base of LangGraph.js agents under a name that people can build on (`langgraph deploy --base-image`). */
export const publicBaseName = "pierhead/langgraph-js";

/** Started without a langgraph.json; such images may run as any user, so their state lies where each may write. */
const startOfDerived = ["node", `${ownDir}/${startProgram}${programExtension}`, "", "/tmp/agent", toolchainDir];

const serverInstructions: Instruction[] = [
  { text: `WORKDIR ${toolchainDir}`, runs: null },
  { text: "COPY toolchain/ ./", runs: null },
  {
    text: `RUN ["node", "${ownDir}/${tidyProgram}${programExtension}", "npm", "install", "--ignore-scripts"]`,
    runs: { shown: "npm install (of the LangGraph.js server)", reason: "ToolchainFailed" },
  },
  { text: "WORKDIR /", runs: null },
  { text: `CMD ${JSON.stringify(startOfDerived)}`, runs: null },
];

async function layOut(directory: string, instructions: Instruction[], kind: BaseKind, certificates: string | null) {
  await rm(directory, { recursive: true, force: true });
  await mkdir(path.join(directory, "toolchain"), { recursive: true });
  await mkdir(path.join(directory, "programs"));
  const write = (name: string, text: string) => writeFile(path.join(directory, name), text);
  await write("Dockerfile", instructions.map(({ text }) => text).join("\n"));
  if (certificates !== null) await write("certificates.pem", certificates);
  await write("programs/package.json", JSON.stringify({ type: "module" }));
  for (const program of programsOf[kind]) {
    const file = `${program}${programExtension}`;
    await cp(programFile(program), path.join(directory, "programs", file), { recursive: true });
  }
  if (kind === "command") return;
  await write("toolchain/package.json", JSON.stringify(manifest));
  await write("toolchain/package-lock.json", JSON.stringify(lock));
}

const programFile = (program: string) => fileURLToPath(new URL(`../../${program}${programExtension}`, import.meta.url));

/** Who trusts more than the usual authorities does so for builds and agents as well: behind a proxy nothing else works. */
async function readCertificates(env: Record<string, string>): Promise<string | null> {
  const file = env["NODE_EXTRA_CA_CERTS"];
  return file === undefined ? null : readFile(file, "utf8").catch(() => null);
}

/** Pulls it when it is not there. */
async function imageId(engine: Engine, name: string): Promise<string> {
  const find = () => engine.callUnless<{ Id: string }>([404], "GET", `/images/${encodeURIComponent(name)}/json`);
  const found = await find();
  if (found !== undefined) return found.Id;
  const tag = /:[^/]+$/.test(name) ? undefined : "latest";
  for await (const { error } of engine.values<{ error?: string }>("POST", "/images/create", {
    query: { fromImage: name, tag },
    timeoutMs: pullTimeoutMs,
  })) {
    if (error !== undefined) throw new BuildFailure("ToolchainFailed", `The image ${name} cannot be pulled: ${error}`);
  }
  return (await find())?.Id ?? name;
}

const pullTimeoutMs = 600_000;
