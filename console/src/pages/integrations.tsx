import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { CodeHost, Integration } from "../../../src/contract/integrations/integration.ts";
import { gathered } from "../gathered.ts";
import { CopyText } from "../parts/address.tsx";
import { CommandLine } from "../parts/command-line.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { useSession } from "../session.tsx";
import { GithubApp } from "./github-app.tsx";

const hosts: { value: CodeHost; text: string }[] = [
  { value: "github", text: "GitHub (access token)" },
  { value: "gitlab", text: "GitLab" },
  { value: "gitea", text: "Gitea or Forgejo" },
  { value: "bitbucket", text: "Bitbucket" },
  { value: "git", text: "Any git server" },
];

const hostName = (host: CodeHost) => hosts.find(({ value }) => value === host)?.text.replace(/ \(.*/, "") ?? host;

/** The credentials that read private repositories. They are never shown again. */
export function IntegrationsPage() {
  const { client, workspaceId, mayAdminister } = useSession();
  const queryKey = ["integrations", workspaceId];
  return (
    <ResourcePage<Integration>
      title="Integrations"
      about="Git hosts whose repositories this workspace deploys."
      teach={
        <p>An integration lets deployments read private repositories and deploys new commits when they are pushed.</p>
      }
      queryKey={queryKey}
      read={(signal) => client.all("listIntegrations", {}, { signal })}
      call={{ id: "listIntegrations", input: { limit: 100 } }}
      idOf={({ id }) => id}
      columns={[
        { name: "Name", show: ({ name }) => name },
        { name: "Host", show: ({ host }) => hostName(host), isShort: true },
        { name: "Repositories", show: ({ url }) => url.replace(/^https:\/\//, ""), isShort: true },
        { name: "Credentials", show: kindOf, isShort: true },
        {
          name: "Webhook URL",
          show: ({ webhook_url: url }) =>
            url === null ? "set by the App" : <CopyText name="Webhook URL" text={url} />,
        },
      ]}
      {...(mayAdminister && {
        actions: ({ id, name }) => (
          <ActionButton
            text="Delete"
            label={`Delete ${name}`}
            isDanger
            confirm={`Deployments can no longer read repositories with ${name}.`}
            act={() => client.deleteIntegration({ integration_id: id })}
            done={`${name} was deleted.`}
            renews={queryKey}
          />
        ),
        children: (
          <>
            <GithubApp />
            <NewIntegration />
          </>
        ),
      })}
    />
  );
}

function kindOf({ installation_id, has_ssh_key, has_token }: Integration): string {
  if (installation_id !== null) return "the GitHub App";
  return [has_token ? "token" : "", has_ssh_key ? "SSH key" : ""].filter((one) => one !== "").join(", ") || "–";
}

function NewIntegration() {
  const { client, workspaceId } = useSession();
  const [host, setHost] = useState<CodeHost>("gitlab");
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [token, setToken] = useState("");
  const body = { host, name, url, token };
  return (
    <FormDialog
      open="New integration"
      title="New integration"
      submit="Create"
      isReady={name.trim() !== "" && url !== "" && token !== ""}
      call={{ id: "createIntegration", input: { body: { ...body, token: "…" } } }}
      send={() => client.createIntegration({ body })}
      renews={["integrations", workspaceId]}
      result={({ webhook_url, webhook_secret }) => (
        <>
          <Notice kind="good">
            Enter these in the webhook settings of the git host. Copy the secret now, because it is shown only once.
          </Notice>
          {webhook_url !== null && <CommandLine text={webhook_url} />}
          <CommandLine text={webhook_secret} />
        </>
      )}
    >
      <SelectField label="Host" value={host} onValue={setHost} options={hosts} />
      <TextField label="Name" value={name} onValue={setName} />
      <TextField
        label="Address"
        value={url}
        onValue={setUrl}
        placeholder="https://gitlab.example.org/acme"
        hint="The token is used only for repositories under this address."
      />
      <TextField label="Access token" type="password" value={token} onValue={setToken} hint="Stored encrypted." />
    </FormDialog>
  );
}

/** The choice of an integration and, for the GitHub App, of one of its repositories. */
export function RepositoryPicker(props: {
  integrationId: string;
  onIntegration: (id: string) => void;
  onRepository: (repository: { url: string; default_branch: string }) => void;
}) {
  const { client, workspaceId } = useSession();
  const { integrationId, onIntegration, onRepository } = props;
  const found = useQuery({
    queryKey: ["integrations", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listIntegrations", {}, { signal })),
  });
  const chosen = found.data?.find(({ id }) => id === integrationId);
  const repositories = useQuery({
    queryKey: ["repositories", integrationId],
    queryFn: ({ signal }) => client.listGithubRepos({ integration_id: integrationId }, { signal }),
    enabled: chosen?.installation_id != null,
  });
  if (!found.data?.length) return null;
  return (
    <>
      <SelectField
        label="Integration"
        value={integrationId}
        onValue={onIntegration}
        options={[
          { value: "", text: "None (public repository)" },
          ...found.data.map(({ id, name }) => ({ value: id, text: name })),
        ]}
      />
      {repositories.data !== undefined && (
        <SelectField
          label="Repositories"
          value=""
          onValue={(url) => {
            const repository = repositories.data.find((one) => one.url === url);
            if (repository !== undefined) onRepository(repository);
          }}
          options={[
            { value: "", text: "Choose …" },
            ...repositories.data.map(({ url, owner, name }) => ({ value: url, text: `${owner}/${name}` })),
          ]}
        />
      )}
    </>
  );
}
