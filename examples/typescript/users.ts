// Signs in, lists, creates and changes users, and reads what is refused:
//
//     node built/users.js http://localhost:8000 admin@example.com PASSWORD

import createClient from "openapi-fetch";
import type { components, paths } from "./chancery-client.js";

const [url = "", username = "", password = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });

const login = await client.POST("/api/auth/login/", { body: { username, password } });
if (!login.data) throw new Error(JSON.stringify(login.error));
// An account with a second factor gets a challenge instead of tokens. Programs sign in with accounts without one.
if (!("access_token" in login.data)) throw new Error("the account has a second factor");
const headers = { Authorization: `Bearer ${login.data.access_token}` };

const anna: components["schemas"]["UserCreate"] = {
  username: "anna.berg@example.com",
  account_type: "internal",
  first_name: "Anna",
  last_name: "Berg",
};
const created = await client.POST("/api/users/", { body: anna, headers });
if (!created.data) throw new Error(JSON.stringify(created.error));
const { id } = created.data;
console.log("created:", created.data.username, created.data.status);

// A change of the state that was read, and then one of a state that is over.
const etag = created.response.headers.get("ETag") ?? "";
for (const job_title of ["Clerk", "Manager"]) {
  const changed = await client.PATCH("/api/users/{id}/", {
    params: { path: { id }, header: { "If-Match": etag } },
    body: { job_title },
    headers,
  });
  if (changed.data) console.log("changed:", changed.data.job_title, changed.data._meta.permissions.edit);
  else console.log("refused:", changed.error.detail);
}

const page = await client.GET("/api/users/", {
  params: { query: { full_name__icontains: "berg", ordering: "-id" } },
  headers,
});
for (const user of page.data?.results ?? []) {
  console.log("listed:", user.full_name, user.created_by?.username);
}

const refused = await client.POST("/api/users/", { body: anna, headers });
for (const [field, messages] of Object.entries(refused.error ?? {})) {
  console.log("refused:", field, messages);
}
