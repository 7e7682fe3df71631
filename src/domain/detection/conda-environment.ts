import { parse } from "yaml";
import { firstNames } from "../../base/first-names.ts";
import { tomlKeys, tomlSection, tomlString } from "./toml-text.ts";

/** What an environment.yml of conda, or a pixi.toml, lists. */
export interface CondaEnvironment {
  file: string;
  /** `3.11`; null: any. */
  pythonVersion: string | null;
  /** Lines for pip. */
  pip: string[];
  /** Packages that conda installs, without the interpreter and installers. Their names are not always those of PyPI. */
  packages: string[];
}

/** What every build has. */
const brought = new Set(["python", "pip", "setuptools", "wheel", "uv", "poetry", "pdm", "pipenv", "hatch"]);

const isPixi = (file: string) => file.endsWith("pixi.toml");

/** Reads an environment.yml or a pixi.toml. Returns null for a file that is not one. */
export function readCondaEnvironment(file: string, text: string): CondaEnvironment | null {
  if (isPixi(file)) return readPixi(file, text);
  const listed = dependenciesIn(text);
  if (listed === null) return null;
  const specifications = listed.filter((one) => typeof one === "string");
  const ofPip = listed.flatMap((one): unknown[] =>
    typeof one === "object" && one !== null && Array.isArray((one as { pip?: unknown }).pip)
      ? (one as { pip: unknown[] }).pip
      : [],
  );
  // A channel may stand before the name: `conda-forge::numpy=1.26`.
  const names = specifications.map((one) => /^(?:.*::)?([\w.-]+)/.exec(one.trim())?.[1]?.toLowerCase() ?? "");
  const python = specifications[names.indexOf("python")];
  return {
    file,
    pythonVersion: /^(?:.*::)?python\s*={1,2}\s*(3\.\d+)/.exec(python?.trim() ?? "")?.[1] ?? null,
    pip: ofPip.filter((one) => typeof one === "string").map((one) => one.trim()),
    packages: names.filter((name) => name !== "" && !brought.has(name)),
  };
}

function dependenciesIn(text: string): unknown[] | null {
  try {
    const { dependencies } = parse(text, { maxAliasCount: 0 }) as { dependencies?: unknown };
    return Array.isArray(dependencies) ? dependencies : null;
  } catch {
    return null;
  }
}

/** Reads the default environment of a pixi.toml. Other environments are for development, such as tests. */
function readPixi(file: string, text: string): CondaEnvironment {
  const ofConda = tomlSection(text, "dependencies");
  const ofPip = tomlSection(text, "pypi-dependencies");
  return {
    file,
    pythonVersion: /^\s*(?:==?|~=|>=)?\s*(3\.\d+)/.exec(tomlString(ofConda, "python") ?? "")?.[1] ?? null,
    pip: ofPip.split("\n").flatMap(pipLine),
    packages: tomlKeys(ofConda).filter((name) => !brought.has(name)),
  };
}

/**
 * Returns the line for pip of a package whose entry has the form `"*"`, `">=1,<2"` or `{ version = ">=1", extras = ["x"] }`. A form
 * with the name of each package would take minutes for a file that is made to be slow.
 */
function pipLine(line: string): string[] {
  const [, name = "", double, single, table = ""] = pypiEntry.exec(line) ?? [];
  if (name === "" || name === "python") return [];
  const values = new Map([...table.matchAll(tableValue)].map(([, key = "", value = ""]) => [key, value]));
  const [, extras = ""] = /\bextras\s*=\s*\[([^\]]{0,500})\]/.exec(table) ?? [];
  const full = extras === "" ? name : `${name}[${extras.replaceAll(/["'\s]/g, "")}]`;
  const [directory, git, url] = [values.get("path"), values.get("git"), values.get("url")];
  if (directory !== undefined) return [/\beditable\s*=\s*true\b/.test(table) ? `-e ${directory}` : directory];
  const ref = values.get("rev") ?? values.get("tag") ?? values.get("branch");
  if (git !== undefined) return [`${full} @ git+${git}${ref === undefined ? "" : `@${ref}`}`];
  if (url !== undefined) return [`${full} @ ${url}`];
  const version = double ?? single ?? values.get("version") ?? "*";
  if (version === "*") return [full];
  return [`${full}${/^[\d]/.test(version) ? "==" : ""}${version.replaceAll(" ", "")}`];
}

const pypiEntry = /^[ \t]*"?([\w.-]+)"?[ \t]*=[ \t]*(?:"([^"]*)"|'([^']*)'|\{(.*)\})?/;
const tableValue = /\b(version|path|git|url|rev|tag|branch)[ \t]*=[ \t]*"([^"]*)"/g;

const namedMax = 8;

/** Why the packages of a conda environment are not installed, and what to do. */
export function condaProblem({ file, packages }: CondaEnvironment): string {
  const listing = isPixi(file)
    ? "Add what the server imports from PyPI instead, for example with: pixi add --pypi fastapi"
    : "List the packages that the server imports in a requirements.txt, for example in the activated environment with: pip list --not-required --format=freeze > requirements.txt";
  return `${file} lists packages for conda: ${firstNames(packages, namedMax)}. Pierhead installs Python packages with pip. ${listing}`;
}
