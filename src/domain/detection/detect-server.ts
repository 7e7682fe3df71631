import { firstNames } from "../../base/first-names.ts";
import { denoAddress, detectDeno, runsDeno } from "./deno-server.ts";
import type { DetectedServer } from "./detected-server.ts";
import { adviceForManagedAgents, deepAgentFile, wayFromDeepAgents } from "./managed-agents.ts";
import { lastScript } from "./mcp-transport.ts";
import type { NodeFacts } from "./node-facts.ts";
import { added, type NodePreset, type Preset, type PythonPreset, presets, stdioPreset } from "./presets.ts";
import type { Procfile, ProjectFacts, PythonFacts } from "./project-facts.ts";
import type { PythonEntry } from "./python-entries.ts";

export type Detection = { server: DetectedServer } | Unrecognized;

/** A project without a server that Pierhead can start. */
export interface Unrecognized {
  server: null;
  because: string;
  /** Whether the reason also says what to change, so that general advice would only mislead. */
  saysWhatToDo: boolean;
}

/** Finds out from the facts of a project how its server is built and started. Pure. */
export function detectServer(facts: ProjectFacts): Detection {
  const { node, python, deno } = facts;
  const ofPython = python === null ? null : detectPython(python);
  const isOfDeno = deno !== null && runsDeno.test(node?.scripts["start"] ?? "deno run");
  const ofDeno = () => (isOfDeno ? detectDeno(deno, node !== null) : null);
  const ofNode = () => ofDeno() ?? (node === null || !canServe(node) ? null : detectNode(node, facts));
  // A tool that speaks over standard input may stand beside the server.
  const found = ofPython?.preset === stdioPreset ? (ofNode() ?? ofPython) : (ofPython ?? ofNode());
  if (facts.procfile !== null) return { server: fromProcfile(facts.procfile, facts, found) };
  if (facts.files.has("aegra.json")) return { server: fromAegra(python) };
  return found === null ? { server: null, ...whyNot(facts) } : { server: found };
}

function fromProcfile(
  { web, release }: Procfile,
  { node, python }: ProjectFacts,
  found: DetectedServer | null,
): DetectedServer {
  const language = found?.language ?? (python !== null ? "python" : node !== null ? "node" : null);
  const ofBuild = found?.language === "node" ? (found.beforeStart ?? []) : [];
  const hasOwnBuild = node?.scripts["build"] !== undefined && language === "node" && ofBuild.length === 0;
  const beforeStart = [...ofBuild, ...(release === null ? [] : [release])];
  return {
    preset: "procfile",
    name: found === null ? "Procfile" : `${found.name} (Procfile)`,
    because: "Procfile has a web command",
    language,
    build: hasOwnBuild ? "script:build" : (found?.build ?? null),
    afterBuild: python === null ? null : afterBuildOf(python),
    start: web,
    ...(beforeStart.length === 0 ? {} : { beforeStart }),
    hasOwnPort: /--(?:server[.-])?port[ =]\d/.test(web),
    adds: runsDeno.test(web) ? [added.deno.package] : [],
    pythonVersion: python?.version ?? null,
  };
}

/** Aegra serves the graphs that its own configuration names. */
const fromAegra = (python: PythonFacts | null): DetectedServer => ({
  preset: "aegra",
  name: "Aegra",
  because: "aegra.json",
  language: "python",
  build: null,
  afterBuild: null,
  start: "aegra serve --host $HOST --port $PORT",
  hasOwnPort: false,
  adds: python?.packages.has("aegra-cli") === true ? [] : ["aegra-cli"],
  pythonVersion: python?.version ?? null,
});

const canServe = ({ workerFile, scripts }: NodeFacts) =>
  workerFile === null || startsAnyway.test(scripts["start"] ?? "");

/** A start script that runs a server of Node, or anything on the given port: beside a Worker, or around a framework. */
const startsAnyway = /\$\{?PORT\b|^(?:\w+=\S+ )*(?:node|tsx|ts-node|bun)\b/;

function detectNode(node: NodeFacts, { files }: ProjectFacts): DetectedServer | null {
  for (const preset of nodePresets) {
    if (!hasFiles(preset, node, files) || (preset.isForPages && node.opensPort)) continue;
    const package_ = preset.packages.find((name) => node.packages.has(name));
    if (preset.packages.length > 0 && package_ === undefined) continue;
    const own = startOf(preset, node);
    if (own !== null) return nodeServer({ preset, own, package_ }, node, files);
  }
  return null;
}

interface Match {
  preset: NodePreset;
  own: NodeStart;
  /** The package by which it was recognized. */
  package_: string | undefined;
}

function nodeServer({ preset, own, package_ }: Match, node: NodeFacts, files: ReadonlySet<string>): DetectedServer {
  const isProxied = speaksStdio(preset, node, own);
  const { start, adds } = isProxied ? behindProxy(own) : own;
  const { setting } = node.mcp;
  const isSet = preset.id === "mcp-typescript" && setting !== null && !asksForHttp(own.start, node.scripts);
  const script = own.start.startsWith("script:") ? own.start.slice("script:".length) : undefined;
  const text = node.scripts[script ?? ""] ?? "";
  const command = `${own.start} ${text} ${lastScript(text, node.scripts)}`;
  const needsBun = node.needsBun || /\bbunx?\b/.test(command);
  const needsDeno = runsDeno.test(command);
  const variables = {
    ...(isSet ? { [setting.name]: setting.value } : {}),
    ...(needsDeno ? denoAddress : {}),
    ...(node.hasAuthJs ? trustedHost : {}),
  };
  const how = script === undefined ? node.entry : `its ${script} script`;
  return {
    preset: preset.id,
    name: preset.name,
    because: package_ === undefined ? `package.json and ${how}` : `${package_} in package.json`,
    language: "node",
    ...buildsOf(preset, node, script),
    start: builtStart(preset, files) ?? start,
    ...(Object.keys(variables).length === 0 ? {} : { variables }),
    ...localHostFor(preset, node, command),
    hasOwnPort: !isProxied && hasOwnPort(preset, node, script),
    runsInNode: !needsBun && !needsDeno,
    adds: [...adds, ...(needsBun ? [added.bun.package] : []), ...(needsDeno ? [added.deno.package] : [])],
    pythonVersion: null,
  };
}

/**
 * Auth.js answers 500 behind a proxy unless it may use the host name of the request, and AUTH_URL overrides that name. Version 4 of
 * NextAuth.js needs NEXTAUTH_URL, which this variable would disable.
 */
const trustedHost = { AUTH_TRUST_HOST: "true" };

/** Host names that the servers of some frameworks require. */
function localHostFor({ id, start, otherwise }: NodePreset, node: NodeFacts, command: string) {
  const isVitePreview = /\bvite preview\b/.test(`${command} ${start ?? otherwise ?? ""}`);
  // Vite refuses all names but those of the machine and of its configuration.
  if (isVitePreview && !node.namesHosts) return { localHost: { host: "localhost:*", isForPathsOnly: false } };
  // Pages of Astro call their own endpoints at the address of the request.
  if (id === "astro") return { localHost: { host: "localhost:*", isForPathsOnly: true } };
  return node.localHost === null ? {} : { localHost: node.localHost };
}

const nodePresets = presets.filter((preset): preset is NodePreset => preset.language === "node");

const builtStart = ({ id }: NodePreset, files: ReadonlySet<string>) =>
  id === "next" && files.has(".next/standalone/server.js") ? "node .next/standalone/server.js" : null;

const hasFiles = ({ files: form, filesInWorkspace }: NodePreset, node: NodeFacts, files: ReadonlySet<string>) =>
  [form, node.isWorkspaceRoot ? filesInWorkspace : undefined].every(
    (one) => one === undefined || [...files].some((file) => one.test(file)),
  );

function speaksStdio({ id }: NodePreset, { mcp, scripts }: NodeFacts, { start }: NodeStart) {
  if (id !== "mcp-typescript") return false;
  return mcp.isStdioOnly || (mcp.isStdioDefault && !asksForHttp(start, scripts));
}

/** Whether a command, or the script that it names, chooses a transport over HTTP. */
const asksForHttp = (start: string, scripts: NodeFacts["scripts"]) =>
  /http|sse|--port\b/i.test(`${start} ${scripts[start.replace("script:", "")] ?? ""}`);

/** The output of the server is its protocol, to which package managers must add nothing. */
function behindProxy({ start, adds }: NodeStart): NodeStart {
  const { file, package: proxy } = added.mcpProxy;
  const isPlain = /^(?:node|npm) /.test(start);
  const command = start.startsWith("script:")
    ? `npm run --silent ${start.slice("script:".length)}`
    : `${isPlain ? "" : "npm exec --no -- "}${start}`;
  return { start: `node ${file} --host $HOST --port $PORT -- ${command}`, adds: [...adds, proxy] };
}

function buildsOf(preset: NodePreset, node: NodeFacts, script: string | undefined) {
  const migrating = withoutMigrations(node.scripts);
  if (migrating !== null) return { ...migrating, afterBuild: null };
  const build = node.scripts["build"] !== undefined ? "script:build" : preset.build;
  const isOptional = preset.build === null && needsNoBuild(node, node.scripts[script ?? ""] ?? "");
  return isOptional ? { build: null, afterBuild: build } : { build, afterBuild: null };
}

/**
 * Returns the build of a project whose build script also migrates a database, and the migration. A build reaches no database, so
 * the migration runs before each start, as the release step of other hosts does.
 */
function withoutMigrations({ build = "", prebuild, postbuild }: NodeFacts["scripts"]) {
  const steps = build.split("&&").map((step) => step.trim());
  const [migrations, others] = [
    steps.filter((step) => migration.test(step)),
    steps.filter((step) => !migration.test(step)),
  ];
  if (migrations.length === 0 || others.length === 0 || /[;|<>$`\\()&]|^cd /.test(steps.join(" "))) return null;
  const around = (name: string, script: string | undefined) => (script === undefined ? [] : [`script:${name}`]);
  const all = [...around("prebuild", prebuild), ...others, ...around("postbuild", postbuild)];
  return { build: all.join(" && "), beforeStart: migrations };
}

/** A step of a build script that changes a database. */
const migration =
  /\bprisma (?:migrate deploy|db push)\b|\bdrizzle-kit (?:push|migrate)\b|\bknex migrate:latest\b|\btypeorm\b.{0,100} migration:run\b|\bsequelize(?:-cli)? db:migrate\b|^(?:(?:npx|bunx|pnpm|npm|yarn|bun|node|tsx|ts-node|run|exec|dlx|--?[\w-]+) )+[\w./:-]{0,100}(?:migrat|db:push)[\w./:-]{0,100}$/;

/** The servers of Next.js and the like, and scripts that set it, read PORT without a word in the sources. */
function hasOwnPort({ id, start, build, ...preset }: NodePreset, node: NodeFacts, script: string | undefined): boolean {
  if (preset.hasOwnPort === true) return true;
  const text = node.scripts[script ?? ""] ?? "";
  if (/PORT|react-scripts|fastify start/.test(text)) return false;
  if (fixedServer.test(text)) return true;
  return node.hasOwnPort && start === null && (build === null || id === "nestjs");
}

/** Servers of tools that read no PORT. */
const fixedServer =
  /^(?:\w+=\S+ )*(?:npx )?(?:vite|vinxi|nx (?:serve|run)|ng serve|astro (?:dev|preview)|webpack(?:-dev-server| serve)|parcel)(?![\w-])/;

/** Programs that run sources as they are: then a build is for checks, or for the publication of a package. */
const sourceRunner =
  /^(?:\w+=\S+ )*(?:npx )?(?:(?:tsx|ts-node|bun(?: run)?) |node .*--(?:import|loader|require)[ =](?:tsx|ts-node)\b)/;

/** Programs whose output servers also load from sources. */
const bundlers = [
  "next",
  "nuxt",
  "vite",
  "astro",
  "webpack",
  "rollup",
  "@remix-run/dev",
  "@react-router/dev",
  "prisma",
];

const needsNoBuild = ({ packages }: NodeFacts, script: string) =>
  sourceRunner.test(script) &&
  !/\b(?:dist|build|out|lib)\//.test(script) &&
  !bundlers.some((name) => packages.has(name));

/** What starts a server, and the packages of `added` that it needs. */
interface NodeStart {
  start: string;
  adds: string[];
}

function startOf(
  { id, scripts, start, otherwise }: NodePreset,
  { scripts: given, entry, entryArguments: words, exportsApp, needsBun, packages }: NodeFacts,
): NodeStart | null {
  // Such projects often have a server of their own around what the framework builds.
  const isAround = (id === "sveltekit" || id === "astro") && startsAnyway.test(given["start"] ?? "");
  if (start !== null && !isAround) return { start, adds: [] };
  const script = scripts
    .flatMap((name) =>
      Object.keys(given).filter((one) => one === name || (name.endsWith("*") && one.startsWith(name.slice(0, -1)))),
    )
    .filter((name) => entry === null || !developmentTool.test(given[name] ?? ""))
    .find((name) => otherwise === undefined || !developmentServer.test(given[name] ?? ""));
  if (script === undefined && otherwise !== undefined) return { start: otherwise, adds: [] };
  if (script !== undefined) return { start: `script:${withoutWatcher(script, given)}`, adds: [] };
  if (entry === null) return null;
  if (needsBun) return { start: `bun ${entry}${words}`, adds: [] };
  const isTyped = /\.(?:[cm]?ts|[jt]sx)$/.test(entry);
  if (isTyped && packages.has("tsx") && !exportsApp) return { start: `tsx ${entry}${words}`, adds: [] };
  const node = isTyped ? `node --import ${added.tsx.file}` : "node";
  const adds = isTyped ? [added.tsx.package] : [];
  if (!exportsApp) return { start: `${node} ${entry}${words}`, adds };
  const host = `${node} ${added.srvx.file} serve --prod --host $HOST --port $PORT --entry ${entry}`;
  return { start: host, adds: [...adds, added.srvx.package] };
}

/** Returns the production script of a project whose usual script restarts the server when a source file changes. */
function withoutWatcher(script: string, scripts: NodeFacts["scripts"]): string {
  const isWatcher = (name: string) => /--watch\b|\bnodemon\b|\b(?:tsx|ts-node-dev) watch\b/.test(scripts[name] ?? "");
  if (!isWatcher(script)) return script;
  // A script named serve often serves the pages beside the server.
  const others = ["start:prod", "start:production", "serve:prod"];
  return others.find((name) => scripts[name] !== undefined && !isWatcher(name)) ?? script;
}

/** Starts Genkit's pages for developers around a server, asks questions on a terminal, and ends without one. */
const developmentTool = /^(?:npx )?genkit (?:start|ui:start)\b/;

/** They listen on ports of their own, and `vite preview` needs the given one as an option. */
const developmentServer = /^(?:\w+=\S+ )*(?:npx )?(?:vite|vinxi)(?: dev| serve| preview)?(?: -|$)/;

const detectPython = (python: PythonFacts): DetectedServer | null =>
  serverAmong(
    python.entries.filter(({ isIndirect }) => !isIndirect),
    python,
  ) ?? serverAmong(python.entries, python);

function serverAmong(entries: readonly PythonEntry[], python: PythonFacts): DetectedServer | null {
  const isPage = ({ id }: Preset) => id === "streamlit" || id === "chainlit";
  const isDeclared = ({ packages }: Preset) => packages.length > 0;
  const [page] = entries.filter(({ kind }) => kind === "streamlit" || kind === "chainlit");
  const server = firstFit(presets, entries, python);
  // Beside a page, programs and MCP servers are often tools that it starts. The more usual file decides.
  const isBefore = server !== null && page !== undefined && entries.indexOf(page) < entries.indexOf(server.entry);
  if (isBefore && /^(?:program|script|mcp|fastmcp)$/.test(server.entry.kind)) {
    const ofPage = firstFit(
      presets.filter((preset) => isPage(preset) && isDeclared(preset)),
      entries,
      python,
    );
    if (ofPage !== null) return ofPage.server;
  }
  return server?.server ?? null;
}

/** Returns the server of the first preset that fits, and the entry from which it starts. */
function firstFit(
  among: readonly Preset[],
  entries: readonly PythonEntry[],
  python: PythonFacts,
): { server: DetectedServer; entry: PythonEntry } | null {
  for (const preset of among) {
    if (preset.language !== "python") continue;
    const package_ = preset.packages.find((name) => python.packages.has(name));
    if (preset.packages.length > 0 && package_ === undefined) continue;
    const entry = entries.find(
      ({ kind, isOfOther }) => kind === preset.entry && (isOfOther !== true || package_ !== undefined),
    );
    if (entry === undefined) continue;
    return { server: pythonServer(preset, { entry, package_ }, python), entry };
  }
  return null;
}

function pythonServer(
  preset: PythonPreset,
  { entry, package_ }: { entry: PythonEntry; package_: string | undefined },
  python: PythonFacts,
): DetectedServer {
  const what = entry.name === "" ? entry.file : `${entry.name} in ${entry.file}`;
  return {
    preset: preset.id,
    name: preset.name,
    because: package_ === undefined ? what : `${package_} in ${python.declaredIn}, ${what}`,
    language: "python",
    build: null,
    afterBuild: afterBuildOf(python),
    start: startIn(entry.importRoot, fill(preset.start, entry)),
    ...(preset.id === "django" && python.migratesDatabase ? { beforeStart: [migrateDjango] } : {}),
    ...(preset.id === "django" && python.hostsVariable !== null
      ? { variables: { [python.hostsVariable]: servedHosts } }
      : {}),
    hasOwnPort: entry.hasOwnPort && !python.readsPort,
    adds: preset.adds.some((name) => python.packages.has(name)) ? [] : preset.adds,
    ...(preset.tools === undefined ? {} : { tools: preset.tools }),
    ...(preset.file === undefined ? {} : { file: { ...preset.file, text: `${fill(preset.file.text, entry)}\n` } }),
    pythonVersion: python.version,
  };
}

/** As Heroku does: many Django projects show no page without the manifest of their collected files. */
const afterBuildOf = ({ collectsStatic }: PythonFacts) =>
  collectsStatic ? "python manage.py collectstatic --noinput" : null;

/** Django answers 400 for all other hosts. Health checks use the first two. */
const servedHosts = "127.0.0.1,localhost,$PUBLIC_HOST";

/** As Railpack does: a Django project without its tables responds with errors. */
const migrateDjango = "python manage.py migrate --noinput";

/** A module is found below the directory from which Python imports it. */
const startIn = (directory: string, command: string) =>
  directory === "" ? command : `cd ${showWord(directory)} && ${command}`;

const showWord = (word: string) => (/^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function fill(template: string, entry: PythonEntry): string {
  const { module, name, options, importRoot } = entry;
  const file = importRoot === "" ? entry.file : entry.file.slice(importRoot.length + 1);
  const directory = file.split("/").slice(0, -1).join("/");
  // `adk` takes the directory that has one directory per agent.
  const agents = directory.split("/").slice(0, -1).join("/") || ".";
  const isModule = directory !== "" && !module.includes("-");
  const program = isModule ? `-m ${module}` : file;
  const words: Record<string, string> = { app: `${module}:${name}`, module, name, file, program, agents, options };
  return template.replaceAll(/\{(\w+)\}/g, (whole, word: string) => words[word] ?? whole).trim();
}

function whyNot(facts: ProjectFacts): Omit<Unrecognized, "server"> {
  const advice = adviceFor(facts);
  return advice === null
    ? { because: whatIsMissing(facts), saysWhatToDo: false }
    : { because: advice, saysWhatToDo: true };
}

const vercelFunction = /^api\/.+\.[cm]?[jt]sx?$/;

function adviceFor({ node, python, deno, files }: ProjectFacts): string | null {
  const managed = adviceForManagedAgents(node, python, files);
  if (managed !== null) return managed;
  if (deno !== null && node === null && python === null)
    return `${deno.config} has no task that starts a server (such as start or serve), and no file such as main.ts is beside it. Add a start task, such as "start": "deno run --allow-all main.ts".`;
  if (node?.mcp.isStdioOnly === true)
    return "The MCP server of this project speaks over standard input, and no program starts it. Name it in main of package.json or in a start script.";
  if (node !== null && node.workerFile !== null)
    return `This project is a Cloudflare Worker: ${node.workerFile} imports modules that exist only in Cloudflare's runtime. To run it in the local version of that runtime, write a pierhead.json with {"build": ["npm install"], "start": "npx wrangler dev --ip $HOST --port $PORT"}.`;
  if (
    node !== null &&
    node.entry === null &&
    files.has("vercel.json") &&
    [...files].some((file) => vercelFunction.test(file))
  )
    return "The files in api/ of this project are functions for Vercel, which start no server. Add a file that serves them, for example with Hono or Express, and a start script that runs it.";
  const offered = node === null ? "" : offer(node);
  if (offered !== "") return `${noNodeServer}${offered}`;
  if (python?.speaksStdio === true)
    return 'The MCP server of this project speaks over standard input only, and no program starts it. Add a file that starts it under `if __name__ == "__main__":`, or run it with a transport over HTTP, such as streamable-http, and listen on PORT.';
  const sample = python === null ? null : adviceForSamples(python);
  if (sample !== null) return sample;
  if (python?.packages.has("crewai") === true)
    return `${python.declaredIn} has crewai, but no program that serves HTTP. \`crewai run\` runs a crew once and ends. Add an application that runs the crew for a request, for example with FastAPI.`;
  return null;
}

const samplesMax = 4;

/** Names the servers in directories of samples: which of them is meant, only the user knows. */
function adviceForSamples(python: PythonFacts): string | null {
  const servers = python.samples.flatMap((entry) => {
    const server = serverAmong([entry], python);
    return server === null ? [] : [{ ...server, file: entry.file }];
  });
  const sites = python.djangoSamples.map((file) => ({ file, name: "Django", start: startOfSite(file), adds: [] }));
  const found = [...new Map([...servers, ...sites].map((one) => [one.file, one])).values()];
  const [first] = found.filter(({ start }) => !/&&|^\w+=/.test(start)).concat(found);
  if (first === undefined) return null;
  const named = found.map(({ file, name }) => `${file} (${name})`);
  const argv = first.start.includes("&&") ? ["sh", "-c", first.start] : first.start.split(" ");
  const missing = first.adds.filter((name) => !python.packages.has(name));
  const adds = missing.length === 0 ? "" : ` Add ${missing.join(", ")} to the project's dependencies, too.`;
  return `The project itself has no server, but its samples do: ${firstNames(named, samplesMax)}. To deploy one of them, write a pierhead.json that starts it, such as {"python": true, "start": ${JSON.stringify(argv)}}.${adds}`;
}

/** Samples of Django name no server for production. */
const startOfSite = (directory: string) =>
  startIn(directory, `${migrateDjango} && exec python manage.py runserver $HOST:$PORT --noreload`);

const noNodeServer = "package.json was found, but it has no start script and no server file such as server.js.";

/** More names make a message unreadable. */
const offeredMax = 5;

/** Names programs of a project that may be its server, because the user has to choose. */
function offer({ programs, servers }: NodeFacts): string {
  const [script] = programs;
  if (script !== undefined)
    return ` These scripts run programs: ${firstNames(programs, offeredMax)}. If one is the server, write a pierhead.json such as {"build": ["npm", "install"], "start": ["npm", "run", "${script}"]}.`;
  return servers.length === 0
    ? ""
    : ` These files open a port: ${firstNames(servers, offeredMax)}. If one is the server, name it in main of package.json.`;
}

/** The sentence for a directory without a file that lists packages, such as a sample whose README lists them; null: it has no programs. */
export function withoutPackages(files: Iterable<string>): string | null {
  const names = [...files].filter((file) => !file.startsWith("."));
  if (names.length === 0)
    return "The directory is empty. If it is a submodule of git, fetch it with: git submodule update --init";
  const described = deepAgentFile(new Set(names));
  if (described !== null) return wayFromDeepAgents(`${described} describes an agent for \`deepagents deploy\``, false);
  if (names.some((file) => /^[^/]+\.py$/.test(file)))
    return "No requirements.txt or pyproject.toml lists the packages of its Python files. Add a requirements.txt with them.";
  if (names.some((file) => /^[^/]+\.[cm]?[jt]sx?$/.test(file)))
    return "No package.json lists the packages of its JavaScript files. Add one with them, or deploy the directory above that has it.";
  return null;
}

function whatIsMissing({ node, python, files }: ProjectFacts): string {
  if (python !== null)
    return `${python.declaredIn} was found, but no program that serves HTTP: no FastAPI, Starlette, Flask or Django application, no MCP server, no A2A server.`;
  if (node !== null) return noNodeServer;
  return (
    withoutPackages(files) ??
    "No package.json, pyproject.toml, requirements.txt, environment.yml or Procfile was found."
  );
}
