/** Files that decide what a build installs, in the order of a build, each with the program that installs from it. */
export const installFiles = [
  { file: "uv.lock", manager: "uv" },
  { file: "poetry.lock", manager: "poetry" },
  { file: "pdm.lock", manager: "pip" },
  { file: "requirements.txt", manager: "pip" },
  { file: "pyproject.toml", manager: "pip" },
  { file: "yarn.lock", manager: "yarn" },
  { file: "pnpm-lock.yaml", manager: "pnpm" },
  { file: "package-lock.json", manager: "npm" },
  { file: "bun.lock", manager: "bun" },
  { file: "bun.lockb", manager: "bun" },
  { file: "package.json", manager: "npm" },
] as const;

export type PackageManager = (typeof installFiles)[number]["manager"];

/** Names of the file with an environment of conda or pixi, in the order in which they are looked for. */
export const condaFileNames = ["environment.yml", "environment.yaml", "pixi.toml"] as const;
