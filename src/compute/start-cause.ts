import { shortenText } from "../base/shorten-text.ts";
import { inArtifact } from "./artifact-paths.ts";
import { findMissingExport } from "./missing-export.ts";

/** Limits of what is searched, because an agent writes its log and the listener serves others meanwhile. */
const searchedLinesMax = 1_000;
const searchedCharactersMax = 1_000;

/**
 * What the log of a replica says about the cause of its end, in one or two sentences; null: nothing that is recognized.
 * @param unset variables that the project names and the deployment does not have.
 */
export function findStartCause(lines: readonly string[], unset: readonly string[] = []): string | null {
  const plain = plainLines(lines);
  const missing = missingVariable(plain, unset);
  const cause =
    (missing === null ? null : missing.sentence) ??
    missingModule(plain) ??
    portInUse(plain) ??
    missingExport(plain) ??
    missingTables(plain) ??
    unreachable(plain) ??
    rootException(plain);
  const graph = failedGraph(plain);
  if (graph === null) return cause;
  return cause === null ? `${graph} Its log shows the cause.` : `${graph} ${cause}`;
}

/** Returns the variables that are missing by a log, with the line that names them; null: it names none. */
export function findMissingVariables(
  lines: readonly string[],
  unset: readonly string[],
): Pick<MissingVariable, "names" | "line"> | null {
  const found = missingVariable(plainLines(lines), unset);
  return found === null ? null : { names: found.names, line: withoutCredentials(inProject(found.line)) };
}

/** Exception groups indent what they contain with bars. A log in JSON has a whole traceback in one line. */
export const plainLines = (lines: readonly string[]) =>
  lines
    .flatMap((line) => line.split("\\n"))
    .slice(-searchedLinesMax)
    .map((line) =>
      line
        .replace(/^[\s|+-]+/, "")
        .slice(0, searchedCharactersMax)
        .trimEnd(),
    );

/** How the LangGraph servers for Python and JavaScript report a graph that they cannot import. */
const failedGraphForms = [
  /Failed to load graph ['"]([^'"]+)['"] from (\S+?)(?::\s|$)/,
  /Graph ['"]([^'"]+)['"] failed to load:.* location=(\S+)/,
  /Failed to load graph ['"]([^'"]+)['"]/,
];

function failedGraph(lines: readonly string[]): string | null {
  for (const form of failedGraphForms) {
    const [, name, file] = lines.map((line) => form.exec(line)).find((match) => match !== null) ?? [];
    if (name !== undefined)
      return `The graph '${name}'${file === undefined ? "" : ` in ${inArtifact(file)}`} cannot be loaded.`;
  }
  return null;
}

/** A name of a variable, as it is written in a sentence. */
const variable = "['\"`]?([A-Z][A-Z0-9]*_[A-Z0-9_]+)\\b";

/** How libraries say that a variable is missing. The group is its name. */
const missingVariableForms = [
  /\bKeyError: ['"]([A-Z][A-Z0-9_]{2,})['"]/,
  /\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)['"`]?\s+(?:environment |env )?(?:variable |var )?(?:must be set|needs to be set|(?:is |was )?(?:missing|not set|not found|unset|undefined|required|empty|needed))/,
  /\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^.:]{1,60} environment variable (?:is )?not set\b/,
  new RegExp(`\\b[Nn](?:either|or|o)(?: the)? ${variable}['"\`]? (?:environment |env )?(?:variable |var )?is set\\b`),
  new RegExp(
    `(?:[Ee]nvironment variables?|[Ee]nv vars?|[Mm]issing|[Uu]nset|setting the|[Rr]equires?|[Pp]lease set)(?: required| environment variables?| env(?: vars?)?| the| an?| your| named| called)*:? *\\(?${variable}`,
  ),
];

/** How exceptions ask for a variable. A log of a healthy server may have such sentences, for example in a warning. */
const exceptionForms = [
  new RegExp(
    `\\b(?:[Ss]et|[Aa]dd|[Dd]efine|[Pp]rovide|[Ee]xport)(?: the| an?| your)?(?: environment variable| env var)? ${variable}`,
  ),
];

/** Sentences in which programs ask for a variable. They count only for one that the project names or that a logged line of code reads. */
const askedForms = [
  new RegExp(
    `\\b(?:[Ss]et|[Pp]rovide|[Dd]efine)(?: the| an?| your)? ${variable}['"\`]? (?:environment |env )(?:variable|var)\\b`,
  ),
  // Names of one word, such as PASSWORD.
  /\b([A-Z][A-Z0-9]{2,})['"`]?\s+(?:environment |env )?(?:variable |var )?(?:must be set|needs to be set|(?:is |was )?(?:missing|not set|unset|undefined|required))\b/,
];

/** How code reads a variable, as a traceback or Node shows the line that failed. */
const readForm = /\b(?:process\.env(?:\.|\[['"])|environ(?:\.get\(|\[)['"]|getenv\(['"])([A-Z][A-Z0-9_]{2,})/g;

/** Libraries that do not name the variable that they read, and those that they do read. */
const unnamed: readonly (readonly [RegExp, readonly [string, ...string[]]])[] = [
  [
    /\bMissing key inputs argument! To use the (?:Google AI|Gemini) API|\bNo API key was provided\b.*\.google\.com/,
    ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
  ],
  [/\bYou must provide a JWT secret in the environment\b/, ["CHAINLIT_AUTH_SECRET"]],
  [/\bYour default credentials were not found\b/, ["GOOGLE_APPLICATION_CREDENTIALS"]],
];

const exception = /(?:^|[\s.(])[A-Z]\w*(?:Error|Exception)(?:: |\()/;

interface MissingVariable {
  names: string[];
  sentence: string;
  line: string;
}

function missingVariable(lines: readonly string[], unset: readonly string[]): MissingVariable | null {
  const search = (among: readonly string[], forms: readonly RegExp[]): MissingVariable | null => {
    for (const line of among) {
      const names = unnamed.find(([form]) => form.test(line))?.[1];
      const name =
        forms.map((form) => form.exec(line)?.[1]).find((found) => found !== undefined) ??
        names?.find((one) => unset.includes(one)) ??
        names?.[0];
      if (name !== undefined && name.length <= nameMax)
        return { names: [name], sentence: `${name} is not set. ${setVariable(name)}`, line };
    }
    return null;
  };
  // Warnings of libraries also name variables, most of which the server does not need.
  const raised = lines.filter((line) => exception.test(line));
  const read = [...unset, ...lines.flatMap((line) => [...line.matchAll(readForm)].map(([, name = ""]) => name))];
  const asked = lines.filter((line) =>
    read.includes(askedForms.map((form) => form.exec(line)?.[1]).find(Boolean) ?? ""),
  );
  const setting = raised.flatMap(
    (line) => /\b([a-z][a-z0-9]*_[a-z0-9_]+) is (?:required|missing)\b/.exec(line)?.[1] ?? [],
  );
  const ofSetting = unset.find((name) => setting.includes(name.toLowerCase()));
  const found =
    search(raised, [...missingVariableForms, ...exceptionForms]) ??
    search(lines, missingVariableForms) ??
    search(asked, askedForms);
  if (found !== null) return found;
  if (ofSetting !== undefined)
    return {
      names: [ofSetting],
      sentence: `${ofSetting} is not set. ${setVariable(ofSetting)}`,
      line: raised.find((line) => line.includes(ofSetting.toLowerCase())) ?? "",
    };
  // pydantic-settings: the name of each setting stands on its own line.
  const settings = lines.flatMap((line, index) =>
    /^Field required\b/.test(lines[index + 1] ?? "") ? (/^([A-Za-z_]\w*)$/.exec(line)?.slice(1) ?? []) : [],
  );
  const short = [...settings, ...checkedVariables(lines)].filter((name) => name.length <= nameMax);
  const names = [...new Set(short.map((name) => variableOf(name.toUpperCase(), unset)))].slice(0, settingsMax);
  const [first] = names;
  if (first === undefined) return null;
  const sentence =
    names.length === 1
      ? `The setting ${short[0]} is not set. ${setVariable(first)}`
      : `These settings are not set: ${names.join(", ")}. Set them with: pierhead env set DEPLOYMENT ${names.join(" ")}.`;
  return { names, sentence, line: `Field required: ${names.join(", ")}` };
}

/** Classes of settings may have a prefix for their variables, which their errors do not contain. */
function variableOf(setting: string, unset: readonly string[]): string {
  if (unset.includes(setting)) return setting;
  const [only, ...others] = unset.filter((one) => one.endsWith(`_${setting}`));
  return only !== undefined && others.length === 0 ? only : setting;
}

/** Returns the variables that a JavaScript validator reports: T3 Env and others with Zod 3 or 4, and env-schema. */
function checkedVariables(lines: readonly string[]): string[] {
  const required = lines.flatMap(
    (line) => /\bmust have required property '([A-Z][A-Z0-9_]{2,})'/.exec(line)?.[1] ?? [],
  );
  if (required.length > 0) return required;
  const from = lines.findIndex((line) => /\bInvalid env(?:ironment)?\b(?: variables?\b| vars?\b|:|$)/i.test(line));
  const text = (from === -1 ? [] : lines.slice(from)).map((line) => line.slice(0, 1_000)).join("\n");
  const forms = [/\b([A-Z][A-Z0-9_]{2,})['"]?: *\[/g, /\bpath['"]?: *\[\s*['"]([A-Z][A-Z0-9_]{2,})['"]/g];
  return forms.flatMap((form) => [...text.matchAll(form)].map(([, name = ""]) => name));
}

/** Longest name that a report may contain (`Cause` in the contract). A longer one is no name of a variable. */
export const nameMax = 256;

/** More names make a message unreadable. */
const settingsMax = 10;

const setVariable = (name: string) => `Set it with: pierhead env set DEPLOYMENT ${name}.`;

function missingModule(lines: readonly string[]): string | null {
  for (const line of lines) {
    const python = /\bNo module named '([\w.]+)'/.exec(line)?.[1];
    // Python names the first part that it cannot find, so the package of a longer name is installed.
    if (python?.includes("."))
      return `The Python module '${python}' is not in the installed version of '${python.split(".")[0]}'. Pin the version of the package that the code was written for, or correct the import.`;
    if (python === "pkg_resources")
      return "The Python module 'pkg_resources' is not installed: setuptools has it before version 82. Add setuptools<82 to the project's dependencies.";
    if (python !== undefined)
      return `The Python module '${python}' is not installed. Add its package to the project's dependencies, or correct the import.`;
    const misfit = misfittingPackage(line);
    if (misfit !== null) return misfit;
    const node = /Cannot find (?:module|package) '([^']+)'/.exec(line)?.[1];
    if (node === undefined) continue;
    // A name with an extension is that of a file that a build has to make.
    const inside = /\.[a-z]{2,4}$/.test(node) ? null : /.*node_modules\/((?:@[^/]+\/)?[^/]+)\/(.+)$/.exec(node);
    if (inside !== null)
      return `The npm package '${inside[1]}' has no file '${inside[2]}'. Correct the import: Node needs its extension, such as .js, and the path that the package exports.`;
    return /^[./]/.test(node)
      ? `The file '${inArtifact(node)}' does not exist. If a build generates it, set the build command.`
      : `The npm package '${node}' is not installed. Add it to the dependencies in package.json.`;
  }
  return null;
}

/** Packages whose versions do not fit each other, or the code of the project. */
function misfittingPackage(line: string): string | null {
  const [, subpath, directory = ""] =
    /\bsubpath '\.\/([^']+)' is not defined by "exports" in (\S+)package\.json/.exec(line) ?? [];
  const [, owner, lacking] =
    /\bThe requested module '([^./'][^']*)' does not provide an export named '([^']+)'/.exec(line) ?? [];
  const name = directory.split("/node_modules/").at(-1)?.replace(/\/$/, "");
  if (subpath !== undefined)
    return `The installed version of the npm package '${name}' has no '${name}/${subpath}', which other code imports. Choose a version of it in package.json and the lock file that fits the others.`;
  if (owner === undefined) return null;
  return `The installed version of the npm package '${owner}' exports no '${lacking}', which other code imports. Choose a version of it in package.json and the lock file that fits the code.`;
}

/** A program that goes on after such an import, with another one or without, ends for another reason. */
function missingExport(lines: readonly string[]): string | null {
  const found = findMissingExport(lines);
  return found === null || rootException(lines.slice(found.at + 1)) !== null ? null : found.sentence;
}

/** The port in the messages of Node, uvicorn and gunicorn. */
const portForms = [
  /EADDRINUSE\b.*:(\d+)\b/,
  /\('[^']*', (\d+)\b[^)]*\): address already in use/i,
  /(?:Connection|Address) (?:already )?in use: \('[^']*', (\d+)\)/i,
];

function portInUse(lines: readonly string[]): string | null {
  for (const line of lines) {
    const port = portForms.map((form) => form.exec(line)?.[1]).find((found) => found !== undefined);
    if (port === undefined) continue;
    return `Another program listens on port ${port}, most likely the revision that serves now. Listen on the port in PORT, or set "state": "exclusive" in pierhead.json, so that the old revision stops first.`;
  }
  return null;
}

const missingTableForms =
  /\brelation "[\w.]+" does not exist|\bno such table: |\bThe table `[^`]+` does not exist in the current database|\bDatabase is not up to date\b|\brun `?(?:poetry run |uv run )?alembic upgrade head/i;

function missingTables(lines: readonly string[]): string | null {
  const said = lines.find((line) => missingTableForms.test(line));
  if (said === undefined) return null;
  return `The database lacks tables that the server needs (${shortenText(withoutCredentials(said), 200)}). Migrate the database before each start: add a Procfile with the web command and a line such as "release: alembic upgrade head".`;
}

const unreachableForms =
  /\b(Cannot connect to host|connection to server at|Connection refused|Connect call failed|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|ENOTFOUND|EAI_AGAIN|Name or service not known|Temporary failure in name resolution|nodename nor servname provided|Max retries exceeded with url|ConnectError|ECONNREFUSED)\b/;

/** A warning of a library that goes on without an answer, as LiteLLM does with its list of prices. */
const warning = /\bWARN(?:ING)?\b/;

function unreachable(lines: readonly string[]): string | null {
  const said = lines.filter((one) => unreachableForms.test(one) && !warning.test(one));
  const [first] = said;
  if (first === undefined) return null;
  const host = said.map(hostOf).find((found) => found !== undefined);
  const what = host ?? lastAddress(lines.slice(0, lines.indexOf(first))) ?? "another server";
  if (/^(?:localhost|127\.0\.0\.1|::1|postgres|db):5432$/.test(what))
    return `It could not connect to a PostgreSQL at ${what} while it started. Set the address of a database in the deployment's variables, or start Pierhead with PIERHEAD_AGENT_POSTGRES_URL and create the deployment again: it then gets a database of its own in DATABASE_URI, and in DATABASE_URL if the project asks for that.`;
  return `It could not connect to ${what} while it started. Check the address and the network of this machine, or connect when the first request needs it.`;
}

/** Where clients of HTTP and of databases name the host. */
const hostForms = [
  /(?:host=|ENOTFOUND |EAI_AGAIN |ECONNREFUSED |Cannot connect to host |connecting to )\\?['"]?([\w.-]+(?::\d+)?)/,
  /connection to server at "([\w.-]+)"(?: \([^)]*\))?, port (\d+)/,
  /Connect call failed \('([\w.:]+)', (\d+)/,
  /(?<![\w.-])([\w.-]+:\d+): \[Errno \d+\] Connection refused/,
];

const hostOf = (line: string) => hostForms.map((form) => form.exec(line)?.slice(1).join(":")).find(Boolean);

/** Returns the host that the source lines of a traceback name last: many libraries do not repeat it in their error. */
function lastAddress(lines: readonly string[]): string | undefined {
  return lines
    .filter((line) => !/\b(?:see|help|docs|visit)\b/i.test(line))
    .flatMap((line) => [...line.matchAll(/https?:\/\/((?:[\w-]+\.)+[\w-]+(?::\d+)?)/gi)].map((match) => match[1]))
    .at(-1);
}

/** Errors of servers that only repeat that the start failed. */
const wrappers =
  /^(?:\w+\.)*(?:GraphLoadError|BaseExceptionGroup|ExceptionGroup|SystemExit|CancelledError|LifespanFailure|Exit)\b/;

const repeats =
  /: Failed to import (?:app|auth) module |^RuntimeError: see the lines above|\bMcpError: Connection closed/;

/** Whether a line is an error that only repeats another one. */
export const isWrapper = (line: string): boolean => wrappers.test(line) || repeats.test(line);

/** Returns the exception that a server reported last: with groups, the innermost one. */
export function rootException(lines: readonly string[]): string | null {
  const form = /^(?:[A-Za-z_]\w*\.)*((?:[A-Z]\w*)?(?:Error|Exception|Failure|Refused|Invalid))(?: \[\w+\])?: (.+)$/;
  const found = lines.flatMap((line, at) => {
    const [said] = isWrapper(line) ? [] : (form.exec(line) ?? []);
    if (said === undefined) return [];
    // esbuild writes a heading and then each error on a line of its own.
    return [said.endsWith(":") && at + 1 < lines.length ? `${said} ${lines[at + 1]}` : said];
  });
  const last = found.at(-1);
  return last === undefined ? null : shortenText(withoutCredentials(inProject(last)), 300);
}

/** Shortens the paths of files in an artifact and of installed packages. */
const inProject = (text: string) => inArtifact(text).replaceAll(/\/\S*\/site-packages\//g, "");

/** A commit status shows this sentence to everybody who can read the repository. */
const withoutCredentials = (text: string) =>
  text
    .replaceAll(/(\w+:\/\/)[^\s/@]+@/g, "$1...@")
    .replaceAll(/\b(sk|pk|ghp|gho|xox[abp]|lsv2|AKIA|eyJ)[-_]?[\w.-]{8,}/g, "...");
