import { parse } from "yaml";
import { firstNames } from "../../base/first-names.ts";
import { type CondaEnvironment, type CondaListing, sortCondaPackages } from "./conda-packages.ts";
import { readPixi } from "./pixi-environment.ts";

/** Reads an environment.yml, a pixi.toml or the tables of pixi in a pyproject.toml. Returns null for a file without any. */
export function readCondaEnvironment(file: string, text: string): CondaEnvironment | null {
  if (file.endsWith(".toml")) return readPixi(file, text);
  const { dependencies: listed, channels } = readYaml(text);
  if (!Array.isArray(listed)) return null;
  const specifications = listed.filter((one) => typeof one === "string").map(readSpecification);
  const ofPip = listed.flatMap((one): unknown[] =>
    typeof one === "object" && one !== null && Array.isArray((one as { pip?: unknown }).pip)
      ? (one as { pip: unknown[] }).pip
      : [],
  );
  const python = specifications.find(({ name }) => name === "python")?.version ?? "";
  return {
    file,
    pythonVersion: /^={1,2}\s*(3\.\d+)/.exec(python)?.[1] ?? null,
    pip: ofPip.filter((one) => typeof one === "string").map((one) => one.trim()),
    ...sortCondaPackages(specifications, Array.isArray(channels) ? channels.map(String) : []),
  };
}

/**
 * Only for a text with the size of an environment and without comparing all keys: the parser takes minutes for a file that is made to
 * be slow, and reports each of its errors with a part of the text.
 */
function readYaml(text: string): { dependencies?: unknown; channels?: unknown } {
  if (text.length > charactersMax || countOf(text, /\n/g) > linesMax || countOf(text, marks) > marksMax) return {};
  try {
    const read: unknown = parse(text, {
      ...{ maxAliasCount: 0, uniqueKeys: false },
      ...{ prettyErrors: false, logLevel: "error" },
    });
    return typeof read === "object" && read !== null ? read : {};
  } catch {
    return {};
  }
}

const countOf = (text: string, form: RegExp) => text.match(form)?.length ?? 0;

/** An environment with all its 500 packages has 30 KiB. */
const [charactersMax, linesMax] = [64 * 1024, 2_000];

/** What begins a value or quotes it, or is an error. An environment has one for each package, and a few for `uvicorn[standard]`. */
const marks = /[^\w\s.=<>#:-]|[:-](?=\s|$)/g;
const marksMax = 3_000;

/** A channel may stand before the name: `conda-forge::numpy=1.26`. A version may follow after a blank: `numpy 1.26.*`. */
function readSpecification(specification: string): CondaListing {
  const at = specification.lastIndexOf("::");
  const own = specification.slice(at === -1 ? 0 : at + 2).split(/[#\n]/, 1)[0] ?? "";
  const name = /^\s*(\w[\w.-]{0,200})/.exec(own)?.[0] ?? "";
  const version = own.slice(name.length).split("[", 1)[0] ?? "";
  return {
    name: name.trim().toLowerCase(),
    version: version.trim(),
    ...(at === -1 ? {} : { channel: specification.slice(0, at) }),
  };
}

const namedMax = 8;

/**
 * Why packages of a conda environment are not installed, and what to do.
 * @param names of those that PyPI does not have.
 */
export function condaProblem(file: string, names: readonly string[]): string {
  const listing = file.endsWith(".toml")
    ? "Add what the server imports from PyPI instead, for example with: pixi add --pypi fastapi"
    : "List the packages that the server imports in a requirements.txt, for example in the activated environment with: pip list --not-required --format=freeze > requirements.txt";
  return `${file} lists packages for conda that PyPI does not have: ${firstNames(names, namedMax)}. Pierhead installs Python packages with pip. ${listing}`;
}
