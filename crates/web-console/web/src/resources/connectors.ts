import { call } from '../api/request.ts'
import { session } from '../api/session.ts'
import type { Resource } from '../generic/resource.ts'

export const connectors: Resource = {
  name: 'mcp_connectors',
  path: '/api/mcp/connectors/',
  route: '/admin/connectors',
  icon: 'bot',
  title: 'connectors',
  one: 'connectors.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'description', 'is_enabled', 'status', 'modified_at'],
  search: 'name__icontains',
  sections: [
    { title: 'section.connector', fields: ['name', 'description', 'integration', 'is_enabled'] },
    { title: 'section.tools', fields: ['allowed_tools'] },
    { title: 'section.connect', fields: ['server_url', 'client_id'], hint: 'connectors.connect' },
  ],
  initial: { is_enabled: true },
  fromAddress: ['integration'],
  secret: { field: 'client_secret', title: 'secret.title', text: 'secret.text' },
  actions: [
    {
      id: 'reset',
      text: 'connectors.reset',
      title: 'connectors.reset.title',
      question: 'connectors.reset.question',
      isDangerous: true,
      isShown: () => session()?.user?.account_type === 'super_admin',
      run: async ({ id }) => (await call('POST', `/api/mcp/connectors/${id}/reset-client-secret/`)).data,
      done: 'connectors.reset.done',
    },
  ],
  deletes: 'connectors.deletes',
}
