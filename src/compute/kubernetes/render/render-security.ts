import type { ResourceSpec } from "../../../contract/deployments/resource-spec.ts";
import type { ClusterPolicy } from "../cluster-context.ts";

/**
 * Security contexts of every pod that a listener renders. Without permissions of its operator they meet the restricted Pod
 * Security Standard: a user other than root, no capabilities, no new privileges, the runtime's filter of system calls.
 */
const seccompProfile = { type: "RuntimeDefault" };

const noPrivileges = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };

/** Returns the security context of pods of one user, which owns their disks. */
export function podSecurityOf(user: number): object {
  // Without this policy every start would change all files of a disk, and PostgreSQL refuses files that its group can write.
  const disks = { fsGroup: user, fsGroupChangePolicy: "OnRootMismatch" };
  return { runAsNonRoot: true, runAsUser: user, runAsGroup: user, ...disks, seccompProfile };
}

export const containerSecurity = noPrivileges;

type Policy = Pick<ClusterPolicy, "allowsRoot" | "agentUser">;

/** Returns the security context of an agent's pod. Its extra containers run as the user of their image, unless they name one. */
export function agentPodSecurity({ allowsRoot, agentUser }: Policy): object {
  if (allowsRoot) return { seccompProfile };
  const disks = { fsGroup: agentUser, fsGroupChangePolicy: "OnRootMismatch" };
  return { runAsNonRoot: true, ...(agentUser > 0 && disks), seccompProfile };
}

/**
 * Returns the security context of the agent's own container. Its image may name no user, root or a user by name, which a
 * kubelet cannot verify, so the container gets a user by number.
 */
export function agentSecurity({ allowsRoot, agentUser }: Policy): object {
  // A server that runs as root often changes owners and users, for which it needs the runtime's default capabilities.
  if (allowsRoot) return { allowPrivilegeEscalation: false };
  return { ...(agentUser > 0 && { runAsUser: agentUser }), ...noPrivileges };
}

type Container = NonNullable<ResourceSpec["sidecars"]>[number];

interface GivenContext {
  runAsUser?: number;
  privileged?: boolean;
  capabilities?: { add?: string[] };
}

/** Completes the checked security context of an init container or sidecar, which has no nulls. */
export function securedContainer(container: Container, { allowsRoot }: Policy): object {
  const given = (container.securityContext ?? {}) as GivenContext;
  const { add = [] } = given.capabilities ?? {};
  const isPrivileged = given.privileged === true;
  const isRoot = isPrivileged || given.runAsUser === 0;
  // The cluster refuses to combine this with such rights.
  const mayEscalate = isPrivileged || add.some((name) => /^(CAP_)?SYS_ADMIN$/.test(name));
  const securityContext = {
    ...(isRoot && !allowsRoot && { runAsNonRoot: false }),
    ...(!mayEscalate && { allowPrivilegeEscalation: false }),
    ...given,
    ...(!allowsRoot && !isPrivileged && { capabilities: { ...given.capabilities, drop: ["ALL"] } }),
  };
  return { ...container, securityContext };
}
