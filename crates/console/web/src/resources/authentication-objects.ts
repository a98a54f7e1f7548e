import { call } from '../api/request.ts'
import type { Resource } from '../generic/resource.ts'
import { may } from '../generic/resource.ts'
import { say } from '../kit/toasts.tsx'

export const authenticationObjects: Resource = {
  name: 'authentication_objects',
  path: '/api/authentication-objects/',
  route: '/admin/authentication-objects',
  icon: 'lock',
  title: 'authentication-objects',
  one: 'authentication-objects.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'provider', 'modified_at', 'modified_by'],
  sections: [{ title: 'section.authentication-object', fields: ['name', 'provider'] }],
  actions: [
    {
      id: 'test',
      text: 'try-it',
      isShown: (object) => may(object, 'edit'),
      run: async ({ id }) => {
        const { data } = await call<{ msg: string }>('POST', `/api/authentication-objects/${id}/test/`)
        say(data.msg)
      },
      done: 'tried',
    },
  ],
}
