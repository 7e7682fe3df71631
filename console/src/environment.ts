import type { Secret, SecretReference } from "../../src/contract/deployments/deployment.ts";

/** The variables of a deployment, from both origins: values that the server stores, and Kubernetes Secrets. */
export interface Environment {
  secrets: Secret[];
  references: SecretReference[];
}

/** Applies the changes from `base` to `staged` to the current environment, so that it undoes no change of another user. */
export function mergeChanges(now: Environment, base: Environment, staged: Environment): Environment {
  return {
    secrets: mergeList(now.secrets, base.secrets, staged.secrets),
    references: mergeList(now.references, base.references, staged.references),
  };
}

function mergeList<T extends { name: string }>(now: readonly T[], base: readonly T[], staged: readonly T[]): T[] {
  const before = new Map(base.map((one) => [one.name, JSON.stringify(one)]));
  const kept = new Set(staged.map(({ name }) => name));
  const next = new Map(now.filter(({ name }) => kept.has(name) || !before.has(name)).map((one) => [one.name, one]));
  for (const one of staged) if (before.get(one.name) !== JSON.stringify(one)) next.set(one.name, one);
  return [...next.values()];
}
