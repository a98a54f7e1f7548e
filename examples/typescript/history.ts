// Makes a tenant of the history service, stores an event, lists it, and reads what is refused:
//
//     node built/history.js http://localhost:8001 KEY

import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { paths } from "./history-client.js";

const [url = "", key = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { "X-API-Key": key } });

const tenant = await client.POST("/api/initialize-tenant", {
  body: { database_name: "typescript", client_label: "TypeScript" },
});
if (!tenant.data) throw new Error(JSON.stringify(tenant.error));
const headers = { "X-Client-Id": tenant.data.client_id };

const event = {
  id: randomUUID(),
  event_timestamp: "2026-01-31T09:30:00Z",
  category: 1,
  event_type: 1,
  source_info: "Anna Berg",
};
const stored = await client.POST("/api/system-events/batch", { body: { events: [event] }, headers });
console.log("stored:", stored.data?.inserted);

const page = await client.GET("/api/system-events", { params: { query: { limit: 10 } }, headers });
for (const listed of page.data?.results ?? []) {
  console.log("listed:", listed.event_type, listed.source_info);
}

const refused = await client.GET("/api/system-events", { params: { query: { limit: 0 } }, headers });
const problems = refused.error?.detail ?? [];
for (const problem of typeof problems === "string" ? [] : problems) {
  console.log("refused:", problem.loc, problem.msg);
}
