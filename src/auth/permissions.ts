import type { KeyScope } from "../contract/administration/organization.ts";
import type { Role } from "../contract/operation.ts";
import type { KeyRole } from "../store/tenants/api-keys.ts";

/**
 * What each role may do besides calls that need no key. A listener's key speaks the listener protocol and nothing else;
 * an agent's key gets tokens for users and nothing else, as it lives in a process that runs what models say.
 */
const allowed: Record<KeyRole, readonly Role[]> = {
  reader: ["caller", "reader"],
  agent: ["caller", "agent"],
  deployer: ["caller", "reader", "agent", "deployer"],
  listener: ["listener"],
  admin: ["caller", "reader", "agent", "deployer", "admin"],
};

export function mayCall(role: KeyRole, needed: Role): boolean {
  return needed === "none" || allowed[role].includes(needed);
}

/** Readers see that a secret exists, not what it is. */
export function maySeeSecrets(role: KeyRole): boolean {
  return mayCall(role, "deployer");
}

const widths: Record<KeyScope, number> = { workspace: 0, organization: 1, installation: 2 };

/** Does a key of this scope reach as far as that? */
export function reaches(scope: KeyScope, needed: KeyScope): boolean {
  return widths[scope] >= widths[needed];
}
