import { type CondaEnvironment, type CondaListing, sortCondaPackages } from "./conda-packages.ts";
import { tomlEntries, tomlList, tomlSection, tomlString, tomlTables } from "./toml-text.ts";

/** Bounds the work. Projects have fewer. */
const featuresMax = 20;

/**
 * Reads the default environment of pixi: the common tables, those of the features that the environment names, and those for Linux.
 * Other environments are for development, such as tests.
 * @returns null for a pyproject.toml without tables of pixi
 */
export function readPixi(file: string, text: string): CondaEnvironment | null {
  const isOwnFile = file.endsWith("pixi.toml");
  const root = isOwnFile ? "" : "tool.pixi.";
  if (!isOwnFile && !/^[ \t]*\[tool\.pixi\b/m.test(text)) return null;
  const tables = tomlTables(text);
  const scopes = [root, ...defaultFeatures(text, root).map((name) => `${root}feature.${name}.`)];
  const all = scopes.flatMap((scope) => [scope, ...systems.map((system) => `${scope}target.${system}.`)]);
  const ofConda = all.flatMap((scope) => tomlEntries(tables, `${scope}dependencies`));
  const ofPip = all.flatMap((scope) => tomlEntries(tables, `${scope}pypi-dependencies`));
  const conda = ofConda.map(([name, value]): CondaListing => {
    const { version, values } = readValue(value);
    const channel = values?.get("channel");
    return { name: name.toLowerCase(), version, ...(channel === undefined ? {} : { channel }) };
  });
  const python = conda.find(({ name }) => name === "python")?.version ?? "";
  return {
    file,
    pythonVersion: /^\s*(?:==?|~=|>=)?\s*(3\.\d+)/.exec(python)?.[1] ?? null,
    pip: [...indexOptions(scopes, text, ofPip), ...ofPip.flatMap(([name, value]) => pipLine(name, value))],
    ...sortCondaPackages(conda, channelsOf(text, scopes)),
  };
}

/** Returns the channels of the project and of its features, as names or as tables. */
function channelsOf(text: string, scopes: readonly string[]): string[] {
  const [root = "", ...features] = scopes;
  const names = [`${root}project`, `${root}workspace`, ...features.map((scope) => scope.slice(0, -1))];
  return names.flatMap((name) => tomlList(tomlSection(text, name), "channels"));
}

/** Returns options for pip. Without them, a package of a private index would be looked for among those that anyone can publish. */
function indexOptions(scopes: readonly string[], text: string, ofPip: readonly [string, string][]): string[] {
  const tables = scopes.map((scope) => tomlSection(text, `${scope}pypi-options`));
  const ofPackages = ofPip.flatMap(([, value]) => readValue(value).values?.get("index") ?? []);
  return [
    ...tables.flatMap((table) => tomlString(table, "index-url") ?? []).map((url) => `--index-url ${url}`),
    ...[...tables.flatMap((table) => tomlList(table, "extra-index-urls")), ...new Set(ofPackages)].map(
      (url) => `--extra-index-url ${url}`,
    ),
  ];
}

const systems = ["unix", "linux", "linux-64"];

/** Returns the features of the default environment: `default = ["web"]` or `default = { features = ["web"] }`. */
function defaultFeatures(text: string, root: string): string[] {
  const environments = tomlSection(text, `${root}environments`);
  const [, table = ""] = /^[ \t]*default[ \t]*=[ \t]*\{(.*)\}/m.exec(environments) ?? [];
  const own = tomlSection(text, `${root}environments.default`);
  const lists = [
    tomlList(environments, "default"),
    tomlList(table.trim().replace(/^.*\bfeatures\b/, "features"), "features"),
    tomlList(own, "features"),
  ];
  return lists.flat().slice(0, featuresMax);
}

/** Reads `"*"`, `">=1,<2"` or `{ version = ">=1", extras = ["x"] }`. */
function readValue(value: string) {
  const text = value.trim();
  if (!text.startsWith("{")) return { version: text.slice(1, text.indexOf(text[0] ?? "", 1)), table: "" };
  const values = new Map([...text.matchAll(tableValue)].map(([, key = "", found = ""]) => [key, found]));
  return { version: values.get("version") ?? "*", table: text, values };
}

/** Returns the line for pip of a package. */
function pipLine(name: string, value: string): string[] {
  if (name === "python") return [];
  const { version, table, values = new Map<string, string>() } = readValue(value);
  const [, extras = ""] = /\bextras\s*=\s*\[([^\]]{0,500})\]/.exec(table) ?? [];
  const named = [...extras.matchAll(/["']([\w.-]+)["']/g)].map((match) => match[1]);
  const full = named.length === 0 ? name : `${name}[${named.join(",")}]`;
  const [directory, git, url] = [values.get("path"), values.get("git"), values.get("url")];
  if (directory !== undefined) return [/\beditable\s*=\s*true\b/.test(table) ? `-e ${directory}` : directory];
  const ref = values.get("rev") ?? values.get("tag") ?? values.get("branch");
  if (git !== undefined) return [`${full} @ git+${git}${ref === undefined ? "" : `@${ref}`}`];
  if (url !== undefined) return [`${full} @ ${url}`];
  if (version === "*" || version === "") return [full];
  return [`${full}${/^[\d]/.test(version) ? "==" : ""}${version.replaceAll(" ", "")}`];
}

const tableValue = /(?<![\w-])(version|path|git|url|rev|tag|branch|channel|index)[ \t]*=[ \t]*["']([^"'\n]*)["']/g;
