/** A service account of a cluster, under which a program calls its API server. */
export interface ServiceAccount {
  namespace: string;
  name: string;
}

/**
 * Returns the account that a token is for, or null for a token of another kind. The token is not verified: the API server
 * does that with each call.
 * Source: https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
 */
export function accountOf(token: string): ServiceAccount | null {
  const [, payload] = token.split(".");
  if (payload === undefined) return null;
  try {
    const { sub } = JSON.parse(Buffer.from(payload, "base64url").toString()) as { sub?: unknown };
    const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(String(sub)) ?? [];
    return namespace === undefined || name === undefined ? null : { namespace, name };
  } catch {
    return null;
  }
}

/**
 * Checks that a listener and the agents have different namespaces. Pods can name every Secret and account of their own
 * namespace, so agents could otherwise act as the listener.
 * @throws Error
 */
export function refuseSharedNamespace(token: string, namespaces: readonly string[]): void {
  const account = accountOf(token);
  if (account === null || !namespaces.includes(account.namespace)) return;
  throw new Error(
    `PIERHEAD_KUBERNETES_NAMESPACES contains ${account.namespace}, the namespace of this listener's own account ` +
      `${account.name}. Agents there could act as the listener. Install the listener in a namespace of its own.`,
  );
}
