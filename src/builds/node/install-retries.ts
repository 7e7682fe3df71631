import { type Install, managerName } from "./install-command.ts";

interface Retry {
  manager: "npm" | "pnpm";
  /** Matches the error that the package manager reports. */
  form: RegExp;
  options: readonly string[];
  /** For the build log. */
  because: string;
}

const retries: readonly Retry[] = [
  {
    manager: "npm",
    // npm also warns with this code, of conflicts that it overrides.
    form: /\b(?:error|ERR!) .{0,40}\bERESOLVE\b/,
    options: ["--legacy-peer-deps"],
    because:
      "The packages of this project disagree about the versions of their peers. Trying again with --legacy-peer-deps, as npm suggests. To make this the default of the project, add legacy-peer-deps=true to .npmrc.",
  },
  {
    manager: "npm",
    form: /\bEBADDEVENGINES\b/,
    options: ["--force"],
    because: `devEngines in package.json asks for programs or versions that this server does not have. Trying again with --force: the agent runs on Node ${process.versions.node}.`,
  },
  {
    manager: "pnpm",
    // pnpm 11 has an age by default. It says nothing about the trust policy, which only a project turns on.
    form: /\bERR_PNPM_MISSING_TIME\b/,
    options: ["--config.minimumReleaseAge=0"],
    because:
      "The registry does not report when versions were published, so pnpm cannot apply minimumReleaseAge. Trying again without it. To apply it, name a registry that reports the times in .npmrc.",
  },
  {
    manager: "pnpm",
    form: /\bERR_PNPM_IGNORED_BUILDS\b/,
    options: ["--config.strictDepBuilds=false"],
    because:
      "pnpm fails because the project does not approve the installation scripts of some packages. Trying again without these scripts. To approve them, run `pnpm approve-builds` and commit pnpm-workspace.yaml.",
  },
];

/** Returns the options with which to install again; null: the output has no error that they solve, or they were tried already. */
export function retryFor(command: Install, lines: readonly string[]): Retry | null {
  const { argv } = command;
  const name = managerName(command);
  const fits = ({ manager, form, options }: Retry) =>
    manager === name && !argv.includes(options[0] ?? "") && lines.some((line) => form.test(line.slice(0, 1_000)));
  return retries.find(fits) ?? null;
}

/** Errors of policies of a project that refuse a version. A retry would override the policy, so the message says what to do. */
const refusals: [form: RegExp, because: string][] = [
  [
    /\bERR_PNPM_(?:NO_MATURE_MATCHING_VERSION|MINIMUM_RELEASE_AGE_VIOLATION)\b/,
    "minimumReleaseAge of this project refuses a version that was published too recently. Deploy later, lock an older version, or name the package in minimumReleaseAgeExclude of pnpm-workspace.yaml.",
  ],
  [
    /\bERR_PNPM_TRUST_CHECK_FAIL\b/,
    "trustPolicy of this project cannot be checked, because the registry does not report when versions were published. Name a registry that does in .npmrc, or remove trustPolicy from pnpm-workspace.yaml.",
  ],
  [
    /\bERR_PNPM_TRUST_DOWNGRADE\b/,
    "trustPolicy of this project refuses a version that was published with weaker evidence than an earlier one. Lock an earlier version, or name the package in trustPolicyExclude of pnpm-workspace.yaml when you trust it.",
  ],
];

/** Returns why a policy of the project refuses the installation, and what to do; null: none does. */
export const refusalIn = (lines: readonly string[]): string | null =>
  refusals.find(([form]) => lines.some((line) => form.test(line.slice(0, 1_000))))?.[1] ?? null;
