import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { effectiveSizes } from "../../../src/domain/sizes.ts";
import { TextField } from "../parts/fields.tsx";
import { FormCard } from "../parts/form-card.tsx";
import { useToasts } from "../parts/toasts.tsx";
import type { Deployment } from "../parts/words.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

/** The numbers of replicas, for deployments that may run several. */
export function Scale({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const [typed, setTyped] = useState<{ min?: string; max?: string }>({});
  const { source, source_config: config } = deployment;
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  const type = hasSpec ? null : config.deployment_type;
  const { minReplicas, maxReplicas } = effectiveSizes(type, config.resource_spec);
  const min = typed.min ?? String(minReplicas);
  const max = typed.max ?? String(maxReplicas);
  const problem = replicasProblem(min, max, type === null ? 0 : 1);
  const input = { deployment_id: deployment.id, body: { min_replicas: Number(min), max_replicas: Number(max) } };
  const isChanged = Number(min) !== minReplicas || Number(max) !== maxReplicas;
  const save = useMutation({
    mutationFn: () => client.scaleDeployment(input),
    onError: notifyError,
    onSuccess: (changed) => {
      notify(min === max ? `Scaling to ${min} replicas.` : `Scaling to ${min} to ${max} replicas.`);
      queries.setQueryData(["deployment", deployment.id], changed);
      setTyped({});
    },
  });
  if (type !== null && type !== "prod") return null;
  return (
    <FormCard
      title="Replicas"
      isReady={isChanged && problem === null}
      isSaving={save.isPending}
      onSave={() => save.mutate()}
      call={{
        ...{ id: "scaleDeployment", input },
        cli: `npx pierhead scale ${deployment.id} ${min === max ? min : `${min}-${max}`}`,
      }}
    >
      <TextField
        label="Always running"
        inputMode="numeric"
        value={min}
        onValue={(text) => setTyped({ ...typed, min: text })}
        {...(type === null && { hint: "With 0 it sleeps when nothing requests it, and wakes with the next request." })}
      />
      <TextField
        label="At most, by load"
        inputMode="numeric"
        value={max}
        onValue={(text) => setTyped({ ...typed, max: text })}
        problem={problem}
        hint="Saving creates a revision with the code and the variables that serve."
      />
    </FormCard>
  );
}

function replicasProblem(min: string, max: string, fewest: number): string | null {
  const isCount = (text: string, from: number) => /^\d+$/.test(text) && Number(text) >= from && Number(text) <= 100;
  if (!isCount(min, fewest)) return `Always running: a number from ${fewest} to 100.`;
  if (!isCount(max, 1)) return "At most: a number from 1 to 100.";
  return Number(min) > Number(max) ? "Not below the number that always runs." : null;
}
