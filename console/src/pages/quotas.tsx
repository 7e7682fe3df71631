import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { PatchQuotas, Quotas } from "../../../src/contract/administration/organization.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { TextField } from "../parts/fields.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
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
        <h1>Quotas</h1>
        <CopyAs call={{ id: "getQuotas", input: { workspace_id: workspaceId } }} />
      </div>
      <table className="list" aria-label="Quotas">
        <thead>
          <tr>
            <th>Quota</th>
            <th>Used</th>
            <th>Limit</th>
          </tr>
        </thead>
        <tbody>
          {(Object.keys(words) as Name[]).map((name) => (
            <tr key={name}>
              <td data-label="Quota">{words[name]}</td>
              <td data-label="Used">
                {Math.round(quotas.data[name].used * 10) / 10}{" "}
                {quotas.data[name].limit !== null && (
                  <meter
                    aria-label={`${words[name]} used`}
                    max={quotas.data[name].limit ?? 1}
                    value={quotas.data[name].used}
                  />
                )}
              </td>
              <td data-label="Limit">{quotas.data[name].limit ?? "None"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {scope !== "workspace" && <Limits quotas={quotas.data} />}
    </>
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
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <h2>Limits</h2>
      {(Object.keys(words) as Name[]).map((name) => (
        <TextField
          key={name}
          label={words[name]}
          inputMode="numeric"
          value={typed[name] ?? String(quotas[name].limit ?? "")}
          onValue={(value) => setTyped({ ...typed, [name]: value })}
          hint="Leave empty for no limit."
        />
      ))}
      <div className="row">
        <button type="submit" className="primary" disabled={limits.length === 0 || !isGood || save.isPending}>
          Save
        </button>
        <CopyAs call={{ id: "patchQuotas", input: { workspace_id: workspaceId, body } }} />
      </div>
    </form>
  );
}
