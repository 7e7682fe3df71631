import { useState } from "react";
import type { ApiKey, KeyRole } from "../../../src/contract/administration/api-key.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { shellWord } from "../parts/copy-as.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { roleTexts } from "../parts/roles.ts";
import { Status, statusText } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

const roles = (["reader", "deployer", "admin", "caller", "agent"] as const satisfies KeyRole[]).map((value) => ({
  value,
  text: roleTexts[value],
}));

const lifetimes = { "": "Never", "30": "In 30 days", "90": "In 90 days", "365": "In a year" } as const;

/** The API keys of the workspace. A key is shown once, when it is created. */
export function KeysPage() {
  const { client, session, workspaceId } = useSession();
  const queryKey = ["keys", workspaceId];
  return (
    <ResourcePage
      title="API keys"
      about="For programs, and for people without an identity provider. A key is shown once."
      teach={<p>A key lets a program or a person call the API, within the limits of its role.</p>}
      queryKey={queryKey}
      read={(signal) => client.all("listApiKeys", { include_inactive: true }, { signal })}
      call={{ id: "listApiKeys", input: { limit: 100 }, cli: "npx pierhead admin keys list" }}
      idOf={({ id }) => id}
      columns={[
        { name: "Name", show: ({ id, name }) => (id === session.api_key_id ? <b>{name} (current)</b> : name) },
        { name: "Prefix", show: ({ prefix }) => <code>{prefix}</code>, isShort: true },
        { name: "Role", show: ({ role, scope }) => `${statusText(role)}, ${scope}`, isShort: true },
        { name: "Status", show: StatusOfKey, isShort: true },
        {
          name: "Expires",
          show: ({ expires_at: at }) =>
            at === null ? (
              <span className="softer">never</span>
            ) : (
              <time dateTime={at}>{new Date(at).toLocaleDateString()}</time>
            ),
          isShort: true,
        },
        { name: "Last used", show: ({ last_used_at }) => <Ago at={last_used_at} />, isShort: true },
      ]}
      actions={({ id, name, status }) =>
        status === "active" && (
          <ActionButton
            text="Revoke"
            label={`Revoke ${name}`}
            isDanger
            confirm={`Calls with ${name} are refused from now on, and its console sessions end.`}
            act={() => client.revokeApiKey({ api_key_id: id })}
            done={`${name} was revoked.`}
            renews={queryKey}
          />
        )
      }
    >
      <NewKey />
    </ResourcePage>
  );
}

/** Time before its end at which a key needs a successor. */
const soonMs = 7 * 86_400_000;

function StatusOfKey({ status, expires_at: at }: ApiKey) {
  if (status === "active" && at !== null && Date.parse(at) - Date.now() < soonMs)
    return <Status of="expiring" text="Expires soon" />;
  return <Status of={status} />;
}

function NewKey() {
  const { client, workspaceId } = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Exclude<KeyRole, "listener">>("deployer");
  const [days, setDays] = useState<keyof typeof lifetimes>("90");
  const body = {
    name,
    role,
    workspace_id: workspaceId,
    ...(days !== "" && { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() }),
  };
  return (
    <FormDialog
      open="New key"
      title="New API key"
      submit="Create"
      isReady={name.trim() !== ""}
      call={{
        id: "createApiKey",
        input: { body },
        cli: `npx pierhead admin keys create ${shellWord(name || "NAME")} --role ${role} --for ${workspaceId}${days === "" ? "" : ` --expires ${days}d`}`,
      }}
      send={() => client.createApiKey({ body })}
      renews={["keys", workspaceId]}
      result={({ key }) => (
        <>
          <Notice kind="good">
            Copy this key now. It is shown only once, because the server stores only its digest.
          </Notice>
          <CommandLine text={key} />
        </>
      )}
    >
      <TextField label="Name" value={name} onValue={setName} hint="Its purpose, such as ci." />
      <SelectField label="Role" value={role} onValue={setRole} options={roles} />
      <SelectField
        label="Expires"
        value={days}
        onValue={setDays}
        options={Object.entries(lifetimes).map(([value, text]) => ({ value: value as keyof typeof lifetimes, text }))}
      />
    </FormDialog>
  );
}
