import type { CommandProject } from "../detect/pierhead-config.ts";

/** Returns the files in `src/compute` of the modules that Node loads before a server. */
export const preloadsOf = ({
  opensGivenPort,
  localHost,
}: Pick<CommandProject, "opensGivenPort" | "localHost">): string[] => [
  ...(opensGivenPort === true ? ["listen-on-port.mjs"] : []),
  ...(localHost === undefined ? [] : ["local-host.mjs"]),
];

/** Returns the variables that local-host.mjs reads. */
export const hostVariables = ({ localHost }: Pick<CommandProject, "localHost">): Record<string, string> =>
  localHost === undefined
    ? {}
    : {
        PIERHEAD_LOCAL_HOST: localHost.host,
        ...(localHost.isForPathsOnly ? { PIERHEAD_LOCAL_HOST_FOR: "paths" } : {}),
      };
