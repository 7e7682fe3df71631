import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Authenticated } from "../../../src/contract/oauth/oauth-token.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { statusText } from "../parts/status.tsx";
import { baseUrl } from "../server.ts";
import { useSession } from "../session.tsx";

/** The services that issue tokens, so that agents can act for their users. */
export function ProvidersPage() {
  const { client, workspaceId, mayAdminister, mayChange } = useSession();
  const [tested, setTested] = useState<Authenticated | null>(null);
  const queryKey = ["providers", workspaceId];
  const test = (provider: string) =>
    client.authenticate({ body: { provider, scopes: [], user_id: "console-test", force_new: true } as never });
  return (
    <>
      <ResourcePage
        title="OAuth providers"
        about="Where agents get tokens of their users, such as GitHub or Google."
        teach={
          <p>
            A provider is a service where people sign in so that an agent can act for them, such as GitHub, Google or an
            MCP server.
          </p>
        }
        queryKey={queryKey}
        read={(signal) => client.listOAuthProviders({}, { signal })}
        call={{ id: "listOAuthProviders", cli: "npx pierhead auth providers list" }}
        idOf={({ id }) => id}
        columns={[
          { name: "Name", show: ({ name }) => name },
          { name: "ID", show: ({ provider_id }) => <code>{provider_id}</code> },
          { name: "Signs in at", show: ({ auth_url }) => auth_url },
          { name: "Redirect URI to register", show: ({ redirect_uri }) => <code>{redirect_uri}</code> },
        ]}
        actions={({ provider_id, name }) => (
          <>
            {mayChange && (
              <ActionButton
                text="Test"
                label={`Test ${name}`}
                act={() => test(provider_id)}
                onDone={(answer) => setTested(answer as Authenticated)}
              />
            )}
            {mayAdminister && (
              <ActionButton
                text="Delete"
                label={`Delete ${name}`}
                isDanger
                confirm={`Agents can no longer get tokens from ${name}. Its existing tokens are deleted.`}
                act={() => client.deleteOAuthProvider({ provider_id })}
                done={`${name} was deleted.`}
                renews={queryKey}
              />
            )}
          </>
        )}
      >
        {mayAdminister && <NewProvider />}
      </ResourcePage>
      {tested !== null && <TestResult answer={tested} onClose={() => setTested(null)} />}
    </>
  );
}

function TestResult({ answer, onClose }: { answer: Authenticated; onClose: () => void }) {
  const { client } = useSession();
  const waited = useQuery({
    queryKey: ["auth-wait", answer.auth_id],
    queryFn: ({ signal }) => client.waitForAuth({ auth_id: answer.auth_id ?? "", timeout: 0 }, { signal }),
    enabled: answer.auth_id !== null,
    refetchInterval: 2_000,
  });
  const status = waited.data?.status ?? answer.status;
  return (
    <Dialog title="Test a sign-in" onClose={onClose}>
      <p role="status">
        Status: <b>{statusText(status)}</b>
      </p>
      {status === "pending" && answer.url !== null && (
        <p>
          <a href={answer.url} target="_blank" rel="noreferrer">
            Sign in at the provider
          </a>{" "}
          in a new tab. The result appears here. The token belongs to a user named console-test.
        </p>
      )}
      {status === "completed" && (
        <Notice kind="good">The provider issued a token. The client ID, the secret and the URLs are correct.</Notice>
      )}
    </Dialog>
  );
}

function NewProvider() {
  const { client, workspaceId } = useSession();
  const presets = useQuery({
    queryKey: ["presets"],
    queryFn: () => client.listOAuthPresets(),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const [preset, setPreset] = useState("");
  const [fields, setFields] = useState({
    provider_id: "",
    name: "",
    client_id: "",
    client_secret: "",
    auth_url: "",
    token_url: "",
  });
  const set = (change: Partial<typeof fields>) => setFields((before) => ({ ...before, ...change }));
  const filled = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "")) as typeof fields;
  const body = { ...filled, ...(preset === "" ? { uses_pkce: true } : { preset }) };
  const chosen = presets.data?.find(({ id }) => id === preset);
  const isComplete =
    fields.provider_id !== "" &&
    fields.client_id !== "" &&
    (preset !== "" || (fields.name !== "" && fields.auth_url !== "" && fields.token_url !== ""));
  return (
    <FormDialog
      open="New provider"
      title="New OAuth provider"
      submit="Create"
      isReady={isComplete}
      call={{
        id: "createOAuthProvider",
        input: { body: { ...body, ...(fields.client_secret !== "" && { client_secret: "…" }) } },
      }}
      send={() => client.createOAuthProvider({ body })}
      renews={["providers", workspaceId]}
    >
      <SelectField
        label="Service"
        value={preset}
        onValue={(id) => {
          setPreset(id);
          set({ provider_id: id });
        }}
        options={[
          { value: "", text: "Other" },
          ...(presets.data ?? []).map(({ id, name }) => ({ value: id, text: name })),
        ]}
        hint={chosen && `Register an application at ${chosen.registration_url}`}
      />
      <TextField
        label="ID"
        value={fields.provider_id}
        onValue={(provider_id) => set({ provider_id })}
        hint="Agents use this ID to name the provider."
      />
      {preset === "" && (
        <>
          <TextField label="Name" value={fields.name} onValue={(name) => set({ name })} />
          <TextField label="Authorization URL" value={fields.auth_url} onValue={(auth_url) => set({ auth_url })} />
          <TextField label="Token URL" value={fields.token_url} onValue={(token_url) => set({ token_url })} />
        </>
      )}
      <TextField label="Client ID" value={fields.client_id} onValue={(client_id) => set({ client_id })} />
      <TextField
        label="Client secret"
        type="password"
        value={fields.client_secret}
        onValue={(client_secret) => set({ client_secret })}
      />
      <p>Redirect URI to register at the provider:</p>
      <CommandLine text={`${baseUrl}/v2/auth/callback/${fields.provider_id || "<id>"}`} />
    </FormDialog>
  );
}
