/** Returns a push message in the format of GitHub's public webhook reference, with the fields that clients read. */
export function pushOf(repository: string, branch: string, after: string, host = "https://github.com") {
  return {
    ref: `refs/heads/${branch}`,
    before: "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    after,
    created: false,
    deleted: false,
    forced: false,
    repository: {
      id: 186853002,
      full_name: repository,
      html_url: `${host}/${repository}`,
      clone_url: `${host}/${repository}.git`,
      ssh_url: `git@github.com:${repository}.git`,
    },
    installation: { id: 41 },
  };
}

const sha = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
const before = "95790bf891e76fee5e1747ab589903a6a1f80f22";
const main = { branch: "main", commitSha: sha };

const gitlabProject = {
  web_url: "https://git.example.org/acme/bot",
  git_http_url: "https://git.example.org/acme/bot.git",
  git_ssh_url: "git@git.example.org:acme/bot.git",
};
const gitlabUrls = [gitlabProject.git_http_url, gitlabProject.web_url, gitlabProject.git_ssh_url];
const giteaRepository = {
  clone_url: "https://git.example.org/acme/bot.git",
  html_url: "https://git.example.org/acme/bot",
  ssh_url: "git@git.example.org:acme/bot.git",
};
const giteaUrls = [giteaRepository.clone_url, giteaRepository.html_url, giteaRepository.ssh_url];
const bitbucketRepository = { full_name: "acme/bot", links: { html: { href: "https://bitbucket.org/acme/bot" } } };
const serverRepository = {
  slug: "bot",
  links: { clone: [{ href: "https://git.example.org/scm/acme/bot.git", name: "http" }] },
};

/** Messages in the formats of the hosts' public references. */
export const recorded = [
  {
    ...{ name: "GitHub: a push as a form", host: "github" },
    headers: { "x-github-event": "push", "content-type": "application/x-www-form-urlencoded" },
    payload: `payload=${encodeURIComponent(JSON.stringify(pushOf("acme/bot", "main", sha)))}`,
    expected: [
      {
        kind: "push",
        urls: ["https://github.com/acme/bot.git", "https://github.com/acme/bot", "git@github.com:acme/bot.git"],
        ...main,
      },
    ],
  },
  {
    ...{ name: "GitHub: a pull request", host: "github", headers: { "x-github-event": "pull_request" } },
    payload: {
      action: "synchronize",
      pull_request: { number: 7, base: { ref: "main" }, head: { ref: "feature", sha } },
      repository: { clone_url: "https://github.com/acme/bot.git" },
    },
    expected: [{ kind: "pull", urls: ["https://github.com/acme/bot.git"], branch: "main", commitSha: null }],
  },
  {
    ...{ name: "GitLab: a push", host: "gitlab", headers: { "x-gitlab-event": "Push Hook" } },
    payload: {
      object_kind: "push",
      before,
      after: sha,
      ref: "refs/heads/main",
      checkout_sha: sha,
      project: gitlabProject,
    },
    expected: [{ kind: "push", urls: gitlabUrls, ...main }],
  },
  {
    ...{ name: "GitLab: a tag", host: "gitlab", headers: { "x-gitlab-event": "Tag Push Hook" } },
    payload: { object_kind: "tag_push", before, after: sha, ref: "refs/tags/v1", project: gitlabProject },
    expected: [],
  },
  {
    ...{ name: "GitLab: a merge request", host: "gitlab", headers: { "x-gitlab-event": "Merge Request Hook" } },
    payload: { object_kind: "merge_request", object_attributes: { target_branch: "main" }, project: gitlabProject },
    expected: [{ kind: "pull", urls: gitlabUrls, branch: "main", commitSha: null }],
  },
  {
    ...{ name: "Gitea: a push", host: "gitea", headers: { "x-gitea-event": "push" } },
    payload: { ref: "refs/heads/main", before, after: sha, repository: giteaRepository },
    expected: [{ kind: "push", urls: giteaUrls, ...main }],
  },
  {
    ...{ name: "Forgejo: a new branch", host: "gitea", headers: { "x-forgejo-event": "push" } },
    payload: { ref: "refs/heads/main", before: "0".repeat(40), after: sha, repository: giteaRepository },
    expected: [],
  },
  {
    ...{ name: "Bitbucket Cloud: a push", host: "bitbucket", headers: { "x-event-key": "repo:push" } },
    payload: {
      repository: bitbucketRepository,
      push: {
        changes: [
          { old: { type: "branch", name: "main" }, new: { type: "branch", name: "main", target: { hash: sha } } },
          { old: null, new: { type: "branch", name: "new", target: { hash: sha } } },
          { old: { type: "tag", name: "v1" }, new: { type: "tag", name: "v1", target: { hash: sha } } },
        ],
      },
    },
    expected: [{ kind: "push", urls: ["https://bitbucket.org/acme/bot"], ...main }],
  },
  {
    ...{
      name: "Bitbucket Cloud: a pull request",
      host: "bitbucket",
      headers: { "x-event-key": "pullrequest:updated" },
    },
    payload: { repository: bitbucketRepository, pullrequest: { destination: { branch: { name: "main" } } } },
    expected: [{ kind: "pull", urls: ["https://bitbucket.org/acme/bot"], branch: "main", commitSha: null }],
  },
  {
    ...{ name: "Bitbucket Data Center: a push", host: "bitbucket", headers: { "x-event-key": "repo:refs_changed" } },
    payload: {
      repository: serverRepository,
      changes: [
        { ref: { id: "refs/heads/main", displayId: "main", type: "BRANCH" }, toHash: sha, type: "UPDATE" },
        { ref: { id: "refs/heads/gone", displayId: "gone", type: "BRANCH" }, toHash: "0".repeat(40), type: "DELETE" },
      ],
    },
    expected: [{ kind: "push", urls: ["https://git.example.org/scm/acme/bot.git"], ...main }],
  },
];
