import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { PatchQuotas, Quotas } from "../../../src/contract/administration/organization.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { TextField } from "../parts/fields.tsx";
import { FormCard } from "../parts/form-card.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

const words = { deployments: "Deployments", replicas: "Replicas", build_minutes: "Build minutes this month" } as const;
type Name = keyof typeof words;

/** The usage and the limits of the workspace. */
export function QuotasPage() {
  const { client, workspaceId, scope } = useSession();
  const quotas = useQuery({
    queryKey: ["quotas", workspaceId],
    queryFn: ({ signal }) => client.getQuotas({ workspace_id: workspaceId }, { signal }),
  });
  if (quotas.isPending) return <Loading what="the quotas" />;
  if (quotas.isError) return <Failure error={quotas.error} retry={() => void quotas.refetch()} />;
  return (
    <>
      <div className="page-head">
        <PageTitle title="Quotas" about="What this workspace uses, and how much of it is allowed." />
        <CopyAs call={{ id: "getQuotas", input: { workspace_id: workspaceId } }} />
      </div>
      <ul className="quotas" aria-label="Quotas">
        {(Object.keys(words) as Name[]).map((name) => (
          <Usage key={name} name={name === "replicas" ? "Replicas at most" : words[name]} {...quotas.data[name]} />
        ))}
      </ul>
      {scope !== "workspace" && <Limits quotas={quotas.data} />}
    </>
  );
}

function Usage({ name, used, limit }: { name: string; used: number; limit: number | null }) {
  const rounded = Math.round(used * 10) / 10;
  return (
    <li className="card quota">
      <span className="soft">{name}</span>
      <p>
        <b className="quota-used">{rounded.toLocaleString()}</b>{" "}
        <span className="softer">{limit === null ? "no limit" : `of ${limit.toLocaleString()}`}</span>
      </p>
      {limit !== null && (
        <meter className="quota-bar" aria-label={`${name} used`} max={limit || 1} high={limit * 0.9} value={used} />
      )}
    </li>
  );
}

/** Sends only the limits that the user typed, so limits that other admins set in the meantime stay. */
function Limits({ quotas }: { quotas: Quotas }) {
  const { client, workspaceId } = useSession();
  const { notify, notifyError } = useToasts();
  const [typed, setTyped] = useState<Partial<Record<Name, string>>>({});
  const limits = Object.entries(typed).map(([name, text]) => [name, text === "" ? null : Number(text)] as const);
  const body = Object.fromEntries(limits) as PatchQuotas;
  const isGood = limits.every(([, limit]) => limit === null || (Number.isInteger(limit) && limit >= 0));
  const save = useMutation({
    mutationFn: () => client.patchQuotas({ workspace_id: workspaceId, body }),
    onError: notifyError,
    onSuccess: (changed) => {
      notify("Saved.");
      queries.setQueryData(["quotas", workspaceId], changed);
      setTyped({});
    },
  });
  return (
    <FormCard
      title="Limits"
      isReady={limits.length > 0 && isGood}
      isSaving={save.isPending}
      onSave={() => save.mutate()}
      call={{ id: "patchQuotas", input: { workspace_id: workspaceId, body } }}
    >
      <p className="soft">Leave a field empty for no limit.</p>
      <div className="quota-fields">
        {(Object.keys(words) as Name[]).map((name) => (
          <TextField
            key={name}
            label={words[name]}
            inputMode="numeric"
            value={typed[name] ?? String(quotas[name].limit ?? "")}
            onValue={(value) => setTyped({ ...typed, [name]: value })}
          />
        ))}
      </div>
    </FormCard>
  );
}
