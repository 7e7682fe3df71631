// Arguments and options that several commands share, in the notation of `CommandSpec`.

export const deploymentArgument = ["<deployment>", "name, id, or unique prefix of an id"] as const;
export const revisionArgument = ["[revision]", "number, id, or unique prefix of an id"] as const;

export const timeoutOption = ["--timeout <time>", "how long to wait: 90s, 10m, 2h", "30m"] as const;
export const waitOptions = [
  ["--no-wait", "return without waiting for the result, with exit code 8"],
  timeoutOption,
] as const;
export const yesOption = ["-y, --yes", "do not ask for confirmation"] as const;
export const dryRunOption = ["--dry-run", "only show what would change"] as const;
