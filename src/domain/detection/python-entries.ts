/** A place in a Python project from which a server can be started. */
export interface PythonEntry {
  kind: PythonEntryKind;
  file: string;
  /** Import name of the file, such as `app.main`. */
  module: string;
  /** The variable or function that is the server; empty for a program. */
  name: string;
  /** Options of a program for its address: `--host $HOST --port $PORT`. */
  options: string;
}

export type PythonEntryKind =
  | "asgi"
  | "asgi-factory"
  | "wsgi"
  | "wsgi-factory"
  | "mcp"
  | "workflows"
  | "django"
  | "adk"
  | "streamlit"
  | "chainlit"
  | "program";

// The API searches sources of strangers in its own process, so a form must take time in proportion to the text: two repetitions
// in a row never match the same characters.
const assigned = (what: string) => new RegExp(`^(\\w+)[ \\t]*(?::[^=\\n]+)?=\\s*(?:\\(\\s*)?${what}`, "m");
const called = (names: string) => assigned(`(?:[\\w.]+\\.)?(?:${names})\\s*\\(`);

/** How a program starts a server. */
const serving = /uvicorn\.(run|Server)\(|\bweb\.run_app\(|serve_forever\(|\.run\([^()]*transport=|\.serve\(/;

/** An application of the A2A SDK, which a method turns into one of ASGI in the same statement or in a later one. */
const a2a = "A2A(?:Starlette|FastAPI)\\w*Application\\(";

/** How each kind of entry shows in a file. The first group is its name. A file must also match `beside`, if there is one. */
const forms: { kind: PythonEntryKind; form: RegExp; beside?: RegExp }[] = [
  { kind: "asgi", form: called("FastAPI|Starlette|Quart|Litestar|Sanic|AGUIApp|FastA2A") },
  { kind: "asgi", form: called("get_app|get_fast_api_app|to_a2a|to_ag_ui|to_web|get_fastapi_app") },
  { kind: "asgi", form: called("http_app|streamable_http_app|sse_app") },
  { kind: "asgi", form: assigned(`${a2a}(?:(?!\\n\\w)[\\s\\S]){0,2000}?\\.build\\(`) },
  { kind: "asgi", form: assigned("\\w+\\.build\\("), beside: new RegExp(`^\\w+ *= *${a2a}`, "m") },
  { kind: "wsgi", form: called("Flask") },
  { kind: "mcp", form: called("FastMCP|MCPServer") },
  { kind: "workflows", form: called("WorkflowServer") },
  {
    kind: "asgi-factory",
    form: /^(?:async )?def ((?:create|make|build|get)_(?:app|application|server|api))\(/m,
    beside: /FastAPI\(|Starlette\(/,
  },
  { kind: "wsgi-factory", form: /^def ((?:create|make|build|get)_(?:app|application|server))\(/m, beside: /Flask\(/ },
  { kind: "adk", form: /^(root_agent)\b[^\n]*=/m },
  { kind: "streamlit", form: /^()(?:import streamlit|from streamlit)/m, beside: /^[ \t]*st\.\w+\(/m },
  { kind: "chainlit", form: /^()import chainlit/m, beside: /@cl\.on_/ },
  { kind: "program", form: /^()if __name__ *==/m, beside: serving },
];

/** Variables that usually hold the server, when a file has several. */
const usualNames = ["app", "application", "api", "server", "mcp"];

/** Files that usually hold the server. */
const usualFiles = ["main", "app", "server", "api", "asgi", "wsgi", "index", "service", "__main__", "run"];

/** Finds the entries in the source files of a project, the most usual first. */
export function findPythonEntries(
  sources: readonly { file: string; text: string }[],
  files: ReadonlySet<string>,
): PythonEntry[] {
  const importsSrc = sources.some(({ text }) => /^[ \t]*(from|import) src[. ]/m.test(text));
  const found = sources.flatMap(({ file, text }) => {
    const module = moduleOf(file, importsSrc || files.has("src/__init__.py"));
    return forms.flatMap(({ kind, form, beside }) => {
      if (beside !== undefined && !beside.test(text)) return [];
      const names = [...text.matchAll(new RegExp(form, "gm"))].map((match) => match[1] ?? "");
      if (names.length === 0) return [];
      const name = usualNames.find((usual) => names.includes(usual)) ?? names[0] ?? "";
      return [{ kind, file, module, name, options: kind === "program" ? optionsOf(text) : "" }];
    });
  });
  found.push(...packagePrograms(sources, files.has("src/__init__.py") || importsSrc));
  if (files.has("manage.py")) found.push(...djangoEntries(files));
  // A directory such as `my-app` cannot be imported, but its programs can be run.
  const usable = found.filter(({ kind, module }) => byFile.has(kind) || /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(module));
  return usable.sort((a, b) => rankOf(a.file) - rankOf(b.file));
}

/** Packages whose `__main__.py` only calls what another of their files has: `python -m NAME` runs them. */
function packagePrograms(sources: readonly { file: string; text: string }[], isSrcPackage: boolean): PythonEntry[] {
  const servers = sources.filter(({ text }) => serving.test(text));
  return sources.flatMap(({ file, text }) => {
    if (!/\/__main__\.py$/.test(file) || /^if __name__ *==/m.test(text)) return [];
    const directory = file.slice(0, -"__main__.py".length);
    const names = [...text.matchAll(/^from ([\w.]+) import/gm)].map((match) => match[1]?.split(".").at(-1) ?? "");
    const imported = new Set(names.map((name) => `${directory}${name}.py`));
    const server = servers.find((one) => imported.has(one.file));
    if (server === undefined) return [];
    const module = moduleOf(file, isSrcPackage);
    return [{ kind: "program" as const, file, module, name: "", options: optionsOf(server.text) }];
  });
}

/** Kinds that are started by the path of their file. */
const byFile = new Set<PythonEntryKind>(["adk", "streamlit", "chainlit", "program"]);

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
  const file = [...files].find((one) => /^[\w/]+\/wsgi\.py$/.test(one));
  if (file === undefined) return [];
  return [{ kind: "django", file, module: moduleOf(file, true), name: "application", options: "" }];
}

function rankOf(file: string): number {
  const parts = file.split("/");
  const base = (parts.pop() ?? "").replace(/\.py$/, "");
  const usual = usualFiles.indexOf(base);
  const depth = parts.filter((part) => part !== "src").length;
  return depth * 20 + (usual === -1 ? usualFiles.length : usual);
}
