import type { KeyScope } from "../contract/administration/organization.ts";
import type { Role } from "../contract/operation.ts";
import type { KeyRole } from "../store/tenants/api-keys.ts";

/**
 * Operations that each role may call besides those that need no key. A listener's key can only use the listener protocol.
 * An agent's key can only get tokens for users, because it lives in a process that runs what models say. A caller's key can
 * only call agents.
 */
const allowed: Record<KeyRole, readonly Role[]> = {
  caller: ["caller"],
  reader: ["caller", "reader"],
  agent: ["caller", "agent"],
  deployer: ["caller", "reader", "agent", "deployer"],
  listener: ["listener"],
  admin: ["caller", "reader", "agent", "deployer", "admin"],
};

export function mayCall(role: KeyRole, needed: Role): boolean {
  return needed === "none" || allowed[role].includes(needed);
}

/** Reports whether a role may read the values of secrets. Readers see only that a secret exists. */
export function maySeeSecrets(role: KeyRole): boolean {
  return mayCall(role, "deployer");
}

const widths: Record<KeyScope, number> = { workspace: 0, organization: 1, installation: 2 };

/** Reports whether a scope is at least as wide as the needed one. */
export function reaches(scope: KeyScope, needed: KeyScope): boolean {
  return widths[scope] >= widths[needed];
}
