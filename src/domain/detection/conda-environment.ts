import { parse } from "yaml";

/** What an environment.yml of conda lists. */
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

/** Reads an environment.yml. Returns null for a file that is not one. */
export function readCondaEnvironment(file: string, text: string): CondaEnvironment | null {
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

const namedMax = 8;

/** Why the packages of a conda environment are not installed, and what to do. */
export function condaProblem({ file, packages }: CondaEnvironment): string {
  const named = packages.slice(0, namedMax).join(", ");
  const more = packages.length > namedMax ? ` and ${packages.length - namedMax} more` : "";
  return `${file} lists packages for conda: ${named}${more}. Pierhead installs Python packages with pip. List the packages that the server imports in a requirements.txt, for example in the activated environment with: pip list --not-required --format=freeze > requirements.txt`;
}
