import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { DeviceLogin } from "../../../src/contract/administration/device-login.ts";
import type { KeyScope } from "../../../src/contract/administration/organization.ts";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Failure, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { statusText } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** Where the user types the code of a command line, sees which machine waits under it, and allows or refuses it. */
export function DeviceLoginPage() {
  const { client, workspaceId } = useSession();
  const [code, setCode] = useState("");
  const find = useMutation({ mutationFn: () => client.getDeviceLogin({ user_code: code }) });
  usePageTitle("Command line");
  const found = find.data;
  return (
    <div className="stack">
      <PageTitle title="Command line" about="Allow pierhead login on a machine to act for you." />
      {found === undefined ? (
        <form
          className="card"
          onSubmit={(event) => {
            event.preventDefault();
            find.mutate();
          }}
        >
          <TextField
            autoFocus
            label="Code"
            value={code}
            onValue={setCode}
            placeholder="WDJB-MJHT"
            maxLength={32}
            autoCapitalize="characters"
            hint="The eight letters that your terminal shows."
            problem={find.isError ? textOf(find.error) : null}
          />
          <div className="row">
            <button type="submit" className="primary" disabled={code.trim() === "" || find.isPending}>
              Continue
            </button>
          </div>
        </form>
      ) : (
        <Decision key={workspaceId} login={found} />
      )}
    </div>
  );
}

const scopeTexts: Record<KeyScope, string> = {
  workspace: "This workspace",
  organization: "All workspaces of the organization",
  installation: "The whole installation",
};
const scopes: readonly KeyScope[] = ["workspace", "organization", "installation"];

function Decision({ login }: { login: DeviceLogin }) {
  const { client, role, scope: widest, session, workspaceId } = useSession();
  const [scope, setScope] = useState<KeyScope>("workspace");
  const workspace = session.workspaces.find(({ id }) => id === workspaceId)?.name;
  const decide = useMutation({
    mutationFn: (allow: boolean) =>
      client.decideDeviceLogin({ body: { user_code: login.user_code, allow, ...(allow && { scope }) } }),
  });
  if (decide.isSuccess) {
    return (
      <Notice kind={decide.variables ? "good" : "info"}>
        {decide.variables
          ? `${login.client_name} is signed in. Go back to its terminal. Its key has the same name.`
          : `${login.client_name} was refused.`}
      </Notice>
    );
  }
  return (
    <section className="card" aria-label="Decision">
      <h2>Allow this command line?</h2>
      <dl className="facts">
        <dt>Code</dt>
        <dd className="mono">{login.user_code}</dd>
        <dt>Machine</dt>
        <dd className="mono">{login.client_name}</dd>
        <dt>Address</dt>
        <dd className="mono">{login.address}</dd>
        <dt>Started</dt>
        <dd>
          <Ago at={login.created_at} />
        </dd>
        <dt>Role</dt>
        <dd>{statusText(role)}, as yours</dd>
        {widest === "workspace" && (
          <>
            <dt>Workspace</dt>
            <dd>{workspace}</dd>
          </>
        )}
      </dl>
      {widest !== "workspace" && (
        <SelectField
          label="It may act in"
          value={scope}
          onValue={setScope}
          options={scopes.slice(0, scopes.indexOf(widest) + 1).map((value) => ({
            value,
            text: value === "workspace" && workspace !== undefined ? `The workspace ${workspace}` : scopeTexts[value],
          }))}
        />
      )}
      <Notice kind="warn">
        <p>
          Allow it only if you just ran <code>pierhead login</code> yourself and your own terminal shows this code.
          Refuse it if another person sent you the code.
        </p>
      </Notice>
      {decide.isError && <Failure error={decide.error} />}
      <div className="row">
        <button type="button" className="primary" disabled={decide.isPending} onClick={() => decide.mutate(true)}>
          Allow
        </button>
        <button type="button" disabled={decide.isPending} onClick={() => decide.mutate(false)}>
          Refuse
        </button>
      </div>
    </section>
  );
}
