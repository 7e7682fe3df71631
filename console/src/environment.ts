import type { Secret, SecretReference } from "../../src/contract/deployments/deployment.ts";

/** Both origins of variables: values that are kept here, and Secrets of the cluster. */
export interface Environment {
  secrets: Secret[];
  references: SecretReference[];
}

/** The changes from `base` to `staged`, made to what is there by now: nothing that others changed meanwhile is undone. */
export function rebased(now: Environment, base: Environment, staged: Environment): Environment {
  return {
    secrets: rebasedList(now.secrets, base.secrets, staged.secrets),
    references: rebasedList(now.references, base.references, staged.references),
  };
}

function rebasedList<T extends { name: string }>(now: readonly T[], base: readonly T[], staged: readonly T[]): T[] {
  const before = new Map(base.map((one) => [one.name, JSON.stringify(one)]));
  const kept = new Set(staged.map(({ name }) => name));
  const next = new Map(now.filter(({ name }) => kept.has(name) || !before.has(name)).map((one) => [one.name, one]));
  for (const one of staged) if (before.get(one.name) !== JSON.stringify(one)) next.set(one.name, one);
  return [...next.values()];
}
