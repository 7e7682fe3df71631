import { isOwn } from "./project-sources.ts";
import { standardModules } from "./python-modules.ts";

/** A place in a Python project from which a server can be started. */
export interface PythonEntry {
  kind: PythonEntryKind;
  file: string;
  /** Directory from which the file imports the project's other modules, and in which it is started; empty: the project's own. */
  importRoot: string;
  /** Import name of the file there, such as `app.main`. */
  module: string;
  /** The variable or function that is the server; empty for a program. */
  name: string;
  /** Options of a program for its address: `--host $HOST --port $PORT`. */
  options: string;
  /** Whether the file itself says on which port it listens. A program may still read PORT. */
  hasOwnPort: boolean;
  /** Whether another file has the server. Such an entry counts only in a project without any other. */
  isIndirect: boolean;
  /** Whether the file is in a subdirectory that names packages of its own, which the project may lack. */
  isOfOther?: boolean;
}

export type PythonEntryKind =
  | "asgi"
  | "asgi-factory"
  | "wsgi"
  | "wsgi-factory"
  | "mcp"
  | "fastmcp"
  | "workflows"
  | "workflow-names"
  | "django"
  | "django-asgi"
  | "adk"
  | "streamlit"
  | "chainlit"
  | "gradio"
  | "robyn"
  | "hayhooks"
  | "livekit"
  | "pipecat"
  | "program"
  | "script"
  | "stdio-program"
  | "stdio-script";

// The API searches sources of strangers in its own process, so a form must take time in proportion to the text: two repetitions
// in a row never match the same characters.
const assigned = (what: string) => new RegExp(`^(\\w+)[ \\t]*(?::[^=\\n]+)?=\\s*(?:\\(\\s*)?${what}`, "m");
const called = (names: string) => assigned(`(?:[\\w.]+\\.)?(?:${names})\\s*\\(`);

/** How a program starts a server: of ASGI, aiohttp, Python itself, the MCP, Tornado, Robyn, or the ACP. */
const serving = new RegExp(
  [
    /uvicorn\.(run|Server)\(|\bweb\.run_app\(|serve_forever\(|\.serve\(/,
    /\.run(?:_async)?\([^()]*transport=(?!["']stdio["'])|\.run_async\(\*\*|\.run_(?:http|sse|streamable_http)_async\(/,
    /\bIOLoop\.(?:current|instance)\(\)\.start\(|\bapp(?:lication)?\.listen\(|\bapp\.start\([^()]*\bport *=/,
    // The Agent Communication Protocol.
    /^(?=[\s\S]*\bacp_sdk\.server\b)[\s\S]*\bserver\.run\(/,
  ]
    .map(({ source }) => source)
    .join("|"),
);

/** How a server of the MCP SDK for Python speaks over its standard input. */
export const pythonStdio =
  /\bstdio_server\(|transport=["']stdio["']|^(?=[\s\S]*\b(?:FastMCP|MCPServer)\b)[\s\S]*\.run\(\)/;

/** The same without clients, which also name their transport. */
const servesStdio = /\bstdio_server\(|(?:\.run(?:_async)?|\bdef \w+)\([^()]*\btransport=["']stdio["']/;

/** What a file names that makes an application of ASGI in another file. */
const asgiFramework = /FastAPI\b|Starlette\b|LlamaIndexServer\b|\buvicorn\b/;

/** An application of the A2A SDK, which a method turns into one of ASGI in the same statement or in a later one. */
const a2a = "A2A(?:Starlette|FastAPI)\\w*Application\\(";

/** Methods of servers, agents and frameworks that make an application of ASGI. */
const applications = "get_app|get_fastapi_app|to_a2a|to_ag_ui|to_web|http_app|streamable_http_app|sse_app";

const restOfStatement = "(?:(?!\\n\\w)[\\s\\S]){0,2000}?";

interface Form {
  kind: PythonEntryKind;
  form: RegExp;
  beside?: RegExp;
  isIndirect?: boolean;
}

/** How each kind of entry shows in a file. The first group is its name. A file must also match `beside`, if there is one. */
const forms: Form[] = [
  { kind: "asgi", form: called("FastAPI|Starlette|Quart|Litestar|Sanic|AGUIApp|FastA2A|LlamaIndexServer|ASGIApp") },
  { kind: "asgi", form: called("BedrockAgentCoreApp"), beside: /\bbedrock_agentcore\b/ },
  { kind: "asgi", form: called(`get_fast_api_app|${applications}`) },
  // In one statement, as in `app = AgentOS(agents=[one]).get_app()`.
  { kind: "asgi", form: assigned(`\\w+\\(${restOfStatement}\\)\\s*\\.(?:${applications})\\(`) },
  { kind: "asgi", form: assigned(`${a2a}${restOfStatement}\\.build\\(`) },
  { kind: "asgi", form: assigned("\\w+\\.build\\("), beside: new RegExp(`^\\w+ *= *${a2a}`, "m") },
  {
    kind: "asgi",
    form: called("(?:create|make|build|get)_(?:app|application|server|api)"),
    beside: asgiFramework,
    isIndirect: true,
  },
  // An application of a package, such as `app = proxy_server.app`.
  { kind: "asgi", form: /^(app|application)[ \t]*=[ \t]*\w+(?:\.\w+)*\.(?:asgi_)?app[ \t]*$/m },
  { kind: "wsgi", form: called("Flask") },
  // A Flask application that another package makes, to which the file adds routes.
  {
    kind: "wsgi",
    form: called("(?:create|make|build|get)_(?:app|application|server)"),
    beside: /^(?![\s\S]*\b(?:Quart|Sanic|FastAPI|Starlette|Litestar)\b)[\s\S]*\n@\w+\.route\(/,
  },
  // The class of the MCP SDK has the same name as the one of FastMCP, but another application.
  { kind: "mcp", form: called("FastMCP|MCPServer"), beside: /\bmcp\.server\b/ },
  { kind: "fastmcp", form: called("FastMCP"), beside: /^(?![\s\S]*\bmcp\.server\b)/ },
  { kind: "workflows", form: called("WorkflowServer") },
  {
    kind: "asgi-factory",
    form: /^(?:async )?def ((?:create|make|build|get)_(?:app|application|server|api))\(/m,
    beside: /(?:FastAPI|Starlette|LlamaIndexServer|Quart|Litestar|Sanic)\(/,
  },
  { kind: "wsgi-factory", form: /^def ((?:create|make|build|get)_(?:app|application|server))\(/m, beside: /Flask\(/ },
  { kind: "adk", form: /^(root_agent)\b[^\n]*=/m },
  { kind: "streamlit", form: /^()(?:import streamlit|from streamlit)/m, beside: /^[ \t]*st\.\w+\(/m },
  { kind: "chainlit", form: /^()import chainlit/m, beside: /(?:@|^)cl\.on_/m },
  { kind: "gradio", form: /^()(?:import|from)[ \t]+[\w.]*gradio(?!_client)/m, beside: /\.launch\(/ },
  // The program may only launch what another one of its files makes.
  { kind: "gradio", form: /^()if __name__ *==/m, beside: /\.launch\([^()]*\bserver_(?:name|port)\b/ },
  { kind: "pipecat", form: /^()if __name__ *==/m, beside: /\bpipecat\.runner\.run\b/ },
  { kind: "robyn", form: called("Robyn") },
  { kind: "hayhooks", form: /^class (PipelineWrapper)\(/m, beside: /\bhayhooks\b/ },
  { kind: "livekit", form: /^()if __name__ *==/m, beside: /\bcli\.run_app\(/ },
  { kind: "program", form: /^()if __name__ *==/m, beside: serving },
  { kind: "stdio-program", form: /^()if __name__ *==/m, beside: pythonStdio, isIndirect: true },
];

/** Variables that usually hold the server, when a file has several. */
const usualNames = ["app", "application", "api", "server", "mcp"];

/** Files that usually hold the server. */
const usualFiles = ["main", "app", "server", "api", "asgi", "wsgi", "index", "service", "__main__", "run"];

interface PythonSource {
  file: string;
  text: string;
}

export interface PythonSources {
  sources: readonly PythonSource[];
  /** The scripts of pyproject.toml, by name: `app.server:main`. */
  scripts: Readonly<Record<string, string>>;
  /** Normalized names of its dependencies. */
  packages: ReadonlySet<string>;
  /** Files that its README runs as pages, such as `streamlit run demo.py`. */
  pages?: ReadonlySet<string>;
}

/** Finds the entries in the source files of a project, the most usual first. */
export function findPythonEntries(project: PythonSources, files: ReadonlySet<string>): PythonEntry[] {
  const { sources, pages = new Set<string>() } = project;
  const rootOf = importRoots(files, project.packages);
  const importsSrc = sources.some(({ text }) => /^[ \t]*(from|import) src[. ]/m.test(text));
  const isSrcPackage = files.has("src/__init__.py") || importsSrc;
  const isBelowOther = new Set<string>();
  const found = sources.flatMap(({ file, text }) => {
    const nearest = rootOf(file, text);
    if (nearest === "" && unimportable(file) !== "") isBelowOther.add(file);
    return forms.flatMap(({ kind, form, beside, isIndirect = false }) => {
      if (beside !== undefined && !beside.test(text)) return [];
      const names = [...text.matchAll(new RegExp(form, "gm"))].map((match) => match[1] ?? "");
      if (names.length === 0) return [];
      const name = usualNames.find((usual) => names.includes(usual)) ?? names[0] ?? "";
      const options = startOptions(kind, text, sources);
      if (kind === "program" && prefersStdio(text, options)) return [];
      // Python does not run the __init__.py of a package.
      if (/^(?:stdio-)?program$/.test(kind) && file.endsWith("/__init__.py")) return [];
      const isFound = isIndirect && !isServed(name, text);
      const own = hasOwnPort(kind, text, options);
      const place = placeOf(kind, file, nearest, isSrcPackage);
      return [{ kind, file, ...place, name, options, hasOwnPort: own, isIndirect: isFound }];
    });
  });
  found.push(...callingPrograms(project, isSrcPackage, { form: serving, program: "program", script: "script" }));
  found.push(...callingPrograms(project, isSrcPackage, overStdio));
  if (files.has("manage.py")) found.push(...djangoEntries(files));
  // A file such as `my-app.py` cannot be imported, but it can be run.
  const named = found.filter(({ kind, module }) => byFile.has(kind) || /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(module));
  const isImportable = ({ kind, file }: PythonEntry) => !byFile.has(kind) && !isBelowOther.has(file);
  // Directories such as `load-test` often have tools beside the server.
  const usable = !named.some(isImportable) ? named : named.filter((one) => byFile.has(one.kind) || isImportable(one));
  const rank = ({ file, kind }: PythonEntry) => (pages.has(file) && isPage.test(kind) ? -1 : rankOf(file));
  const sorted = usable.sort((a, b) => rank(a) - rank(b));
  const hasPackages = project.packages.size > 0;
  return sorted.map((entry) => (isOfOther(entry.file, files, hasPackages) ? { ...entry, isOfOther: true } : entry));
}

/** Returns where a kind of entry imports its file from, and as which module. @param nearest import root of the file. */
function placeOf(kind: PythonEntryKind, file: string, nearest: string, isSrcPackage: boolean) {
  const importRoot = nearest === "" && !byFile.has(kind) ? unimportable(file) : nearest;
  const module = moduleOf(importRoot === "" ? file : file.slice(importRoot.length + 1), isSrcPackage);
  return { importRoot, module: loadedModule(kind, file, module) };
}

/** Returns the deepest directory above a file that has no name of a package, such as `my-app`: Python imports its modules from there. */
function unimportable(file: string): string {
  const parts = file.split("/").slice(0, -1);
  const at = parts.findLastIndex((part) => !/^[A-Za-z_]\w*$/.test(part));
  return parts.slice(0, at + 1).join("/");
}

/** Importing a package does not import its __main__.py, but running the package runs it. */
const loadedModule = (kind: PythonEntryKind, file: string, module: string) =>
  file.endsWith("/__main__.py") && !byFile.has(kind) ? `${module}.__main__` : module;

const isPage = /^(?:streamlit|chainlit)$/;

const manifests = ["pyproject.toml", "requirements.txt", "Pipfile", "setup.py"];

function isOfOther(file: string, files: ReadonlySet<string>, hasPackages: boolean): boolean {
  const parts = file.split("/").slice(0, -1);
  const around = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
  // A package may list requirements of its own, but the project beside it installs them, unless it only has settings of tools.
  const isPackage = (directory: string) => hasPackages && files.has(`${directory}/__init__.py`);
  return around.some((one) => !isPackage(one) && manifests.some((name) => files.has(`${one}/${name}`)));
}

/** Whether the file also passes a variable to uvicorn, as it is and not what one of its methods returns. */
const isServed = (name: string, text: string) =>
  new RegExp(`\\buvicorn\\.run\\(\\s*(?:["'][\\w.]+:)?${name}["']?\\s*[,)]`).test(text);

/** Whether a server with several transports takes none of them by an option or a port: then standard input is the usual one. */
const prefersStdio = (text: string, options: string) =>
  servesStdio.test(text) && !/--(?:transport|port)\b/.test(options) && !/["']PORT["']/.test(text);

/** What a program calls, and the kinds of the programs and scripts that call it. */
interface Called {
  form: RegExp;
  program: PythonEntryKind;
  script: PythonEntryKind;
}

const overStdio: Called = { form: pythonStdio, program: "stdio-program", script: "stdio-script" };

/** Programs that only call what another of their files has: those that are run by name, and the scripts of pyproject.toml. */
function callingPrograms(
  { sources, scripts }: PythonSources,
  isSrcPackage: boolean,
  { form, program, script }: Called,
): PythonEntry[] {
  const moduleIn = (file: string) => moduleOf(file, isSrcPackage);
  const byModule = new Map(sources.map((source) => [moduleIn(source.file), source]));
  // The module of a package is its __init__.py, not the program beside it.
  for (const source of sources) if (source.file.endsWith("/__init__.py")) byModule.set(moduleIn(source.file), source);
  for (const source of sources)
    if (source.file.endsWith("/__main__.py")) byModule.set(`${moduleIn(source.file)}.__main__`, source);
  const imports = sources.map((source): [PythonSource, PythonSource[]] => {
    const modules = importsOf(source.text, moduleIn(source.file.replace(/[^/]+$/, "__init__.py")));
    return [source, [...new Set(modules.flatMap((module) => byModule.get(module) ?? []))]];
  });
  const direct = sources.filter(({ text }) => form.test(text));
  let servers = new Map(direct.map((source) => [source, source]));
  // Each round follows one import, so that many files that import each other take no longer.
  for (let round = 0; round < callDepthMax; round += 1) {
    const found = imports.flatMap(([source, imported]): [PythonSource, PythonSource][] => {
      const server = servers.get(source) ?? imported.map((one) => servers.get(one)).find((one) => one !== undefined);
      return server === undefined ? [] : [[source, server]];
    });
    servers = new Map(found);
  }
  const programs = sources.flatMap((source) => {
    const { file, text } = source;
    const isNamed = /(^|\/)__main__\.py$/.test(file);
    const isProgram = isNamed || /^if __name__ *==/m.test(text);
    const server = isProgram && !direct.includes(source) ? servers.get(source) : undefined;
    const options = server === undefined ? "" : optionsFor(server.text, sources);
    if (server === undefined || (form === serving && prefersStdio(server.text, options))) return [];
    return [
      {
        ...programOf(
          program,
          { file, importRoot: "", module: moduleIn(file), name: "" },
          { text: server.text, options },
        ),
        isIndirect: !isNamed || form !== serving,
      },
    ];
  });
  const named = Object.entries(scripts).flatMap(([name, target]) => {
    const source = byModule.get(target.split(":")[0] ?? "");
    const server = source === undefined ? undefined : servers.get(source);
    if (source === undefined || server === undefined) return [];
    const options = optionsFor(server.text, sources);
    if (form === serving && prefersStdio(server.text, options)) return [];
    const what = { file: source.file, importRoot: "", module: name, name };
    return [{ ...programOf(script, what, { text: server.text, options }), isIndirect: true }];
  });
  return [...programs, ...named];
}

/** How many imports lie between a program and what starts its server. */
const callDepthMax = 2;

/** Returns the modules that a file may import, with those that it imports from packages. */
function importsOf(text: string, ownPackage: string): string[] {
  const found = text.matchAll(/^[ \t]*from[ \t]+(?=[.\w])(\.{0,3})([\w.]*)[ \t]+import[ \t]+\(?([\w, \t]+)/gm);
  return [...found].slice(0, importsMax).flatMap(([, dots = "", module = "", names = ""]) => {
    const parts = dots === "" ? [] : ownPackage.split(".").slice(0, -(dots.length - 1) || undefined);
    const base = [...parts, ...(module === "" ? [] : [module])].filter(Boolean).join(".");
    return [base, ...names.split(",", importsMax).map((name) => `${base === "" ? "" : `${base}.`}${name.trim()}`)];
  });
}

const importsMax = 200;

type Program = Pick<PythonEntry, "file" | "importRoot" | "module" | "name">;

const programOf = (kind: PythonEntryKind, what: Program, { text, options }: { text: string; options: string }) => {
  return { kind, ...what, options, hasOwnPort: hasOwnPort(kind, text, options) };
};

function startOptions(kind: PythonEntryKind, text: string, sources: readonly PythonSource[]): string {
  if (kind === "gradio") return launchOptions(text);
  return kind === "program" ? optionsFor(text, sources) : "";
}

/** Returns the options of a program that passes its address to Gradio: `launch(server_name=args.ip, server_port=args.port)`. */
function launchOptions(text: string): string {
  const optionFor = (parameter: string, value: string) => {
    const [, name = ""] = new RegExp(`\\b${parameter}=\\w+\\.(\\w+)`).exec(text) ?? [];
    const option = `--${name.replaceAll("_", "-")}`;
    const declared = [`--${name}`, option].find((one) => name !== "" && new RegExp(`["']${one}["']`).test(text));
    return declared === undefined ? [] : [`${declared} ${value}`];
  };
  return [...optionFor("server_name", "$HOST"), ...optionFor("server_port", "$PORT")].join(" ");
}

const hasOwnPort = (kind: PythonEntryKind, text: string, options: string) =>
  byPort.has(kind) ? !options.includes("$PORT") : kind === "gradio" && /\bserver_port *= *\d/.test(text);

/** Kinds that listen where the program wants. */
const byPort = new Set<PythonEntryKind>(["program", "script", "livekit"]);

/** Kinds that are started by the path of their file. */
const byFile = new Set<PythonEntryKind>([
  "adk",
  "streamlit",
  "chainlit",
  "gradio",
  "robyn",
  "hayhooks",
  "livekit",
  "pipecat",
  "program",
  "script",
  "stdio-program",
  "stdio-script",
]);

/**
 * Returns a function that finds the import root of a file: the nearest directory above the file that has a module which the file
 * imports, when the project's own directory and its `src` do not have it, and neither Python nor a package has its name. Such a
 * project is started in that directory. It is always above the packages that the file names, or from which it imports relatively.
 */
function importRoots(
  files: ReadonlySet<string>,
  packages: ReadonlySet<string>,
): (file: string, text: string) => string {
  const modules = new Set([...files].filter((file) => file.endsWith(".py")).flatMap(importablePaths));
  return (file, text) => {
    const parts = file.split("/").slice(0, -1);
    const imported = [...text.matchAll(/^[ \t]*(?:from|import)[ \t]+(\w+)/gm)].map((match) => match[1] ?? "");
    const ownPackage = parts.findIndex((part) => imported.includes(part));
    const levels = [...text.matchAll(/^[ \t]*from[ \t]+(\.+)/gm)].map((match) => match[1]?.length ?? 0);
    const packageDepth = levels.reduce((most, level) => Math.max(most, level), 0);
    const depth = Math.min(ownPackage === -1 ? parts.length : ownPackage, parts.length - packageDepth);
    if (depth <= 0) return "";
    const above = parts.slice(0, depth).map((_, at) => parts.slice(0, depth - at).join("/"));
    const isNested = (name: string) =>
      !standardModules.has(name) &&
      !modules.has(name) &&
      !modules.has(`src/${name}`) &&
      !packages.has(name.toLowerCase().replaceAll("_", "-"));
    const nested = [...new Set(imported)].filter(isNested).slice(0, importsMax);
    return above.find((root) => root !== "src" && nested.some((name) => modules.has(`${root}/${name}`))) ?? "";
  };
}

/** Returns the paths of a module and of the packages around it: `a`, `a/b` and `a/b/c` for `a/b/c.py`. */
function importablePaths(file: string): string[] {
  const parts = file.replace(/(\/__init__)?\.py$/, "").split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

function moduleOf(file: string, isSrcPackage: boolean): string {
  const name = file
    .replace(/\.py$/, "")
    .replace(/\/__init__$/, "")
    .replace(/\/__main__$/, "");
  return (isSrcPackage ? name : name.replace(/^src\//, "")).replaceAll("/", ".");
}

/** Transports of MCP servers over HTTP, the newest first. Only the first two mean nothing else. */
const streamable = ["streamable-http", "streamable_http"];
const transports = [...streamable, "http", "sse"];

/** Characters on each side of the declaration of an option in which its values are looked for. */
const declarationLength = 300;

/** Starts a server with a transport that is not a literal, so the settings of the program choose it. */
const chosenTransport = /\.run(?:_async)?\([^()]*\btransport=(?!["'])/;

/** Returns the options of a server: its own, or those that another file of the project declares for its settings. */
function optionsFor(text: string, sources: readonly PythonSource[]): string {
  const own = optionsOf(text);
  if (own !== "" || !chosenTransport.test(text)) return own;
  const [declaring, ...others] = sources.filter((one) => /["']--transport["']/.test(one.text));
  return declaring === undefined || others.length > 0 ? "" : optionsOf(declaring.text);
}

/** The options with which a program takes its address, as argparse, click and typer declare them. */
function optionsOf(text: string): string {
  const isDeclared = (name: string) => new RegExp(`["']--${name}["']`).test(text);
  const has = (where: string) => (name: string) => where.includes(`"${name}"`) || where.includes(`'${name}'`);
  const at = text.search(/["']--transport["']/);
  const near = at === -1 ? "" : text.slice(Math.max(0, at - declarationLength), at + declarationLength);
  // Servers of the MCP speak over standard input unless they are asked for another transport.
  const transport = transports.find(has(near)) ?? streamable.find(has(text));
  return [
    isDeclared("transport") && transport !== undefined ? `--transport ${transport}` : "",
    isDeclared("host") ? "--host $HOST" : "",
    isDeclared("port") ? "--port $PORT" : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function djangoEntries(files: ReadonlySet<string>): PythonEntry[] {
  const found = [/^[\w/]+\/wsgi\.py$/, /^[\w/]+\/asgi\.py$/].flatMap((form) =>
    [...files].filter((one) => form.test(one)),
  );
  // A site may be called `example` itself. One with a manage.py of its own is a sample.
  const file = found.find(isOwn) ?? found.find((one) => siteRoot(one, files) === "");
  if (file === undefined) return [];
  const kind = file.endsWith("/asgi.py") ? "django-asgi" : "django";
  const importRoot = siteRoot(file, files);
  const module = moduleOf(importRoot === "" ? file : file.slice(importRoot.length + 1), true);
  return [{ kind, file, importRoot, module, name: "application", options: "", hasOwnPort: false, isIndirect: false }];
}

/** Returns the directory from which Django imports settings: that of manage.py, the nearest one in a project with several sites. */
function siteRoot(file: string, files: ReadonlySet<string>): string {
  const above = file.split("/").slice(0, -1);
  const roots = above.map((_, at) => above.slice(0, above.length - at).join("/"));
  return roots.find((root) => files.has(`${root}/manage.py`)) ?? "";
}

function rankOf(file: string): number {
  const parts = file.split("/");
  const base = (parts.pop() ?? "").replace(/\.py$/, "");
  const usual = usualFiles.indexOf(base);
  const depth = parts.filter((part) => part !== "src").length;
  return depth * 20 + (usual === -1 ? usualFiles.length : usual);
}
