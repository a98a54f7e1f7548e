import { call } from '../api/request.ts'
import { session } from '../api/session.ts'
import type { Instance } from '../api/shapes.ts'
import { type Action, may, type Resource } from '../generic/resource.ts'
import type { Key } from '../texts.ts'

const NAMES = ['send_activation_link', 'unlock', 'deactivate', 'reactivate', 'anonymize'] as const
const QUESTIONS: { [name: string]: Key } = {
  deactivate: 'users.deactivate.question',
  anonymize: 'users.anonymize.question',
}

const offers = (user: Instance, name: string) => Array.isArray(user.next_actions) && user.next_actions.includes(name)

const action = (name: (typeof NAMES)[number]): Action => ({
  id: name,
  text: `users.${name}`,
  isDangerous: name === 'anonymize' || name === 'deactivate',
  ...(QUESTIONS[name] && { question: QUESTIONS[name] }),
  isShown: (user) => offers(user, name),
  run: (user) => call('POST', `/api/users/${user.id}/${name.replaceAll('_', '-')}/`),
  done: (user) => (name === 'send_activation_link' && !isMailSetUp(user) ? 'users.not-sent' : `users.${name}.done`),
})

/** True if mail leaves the server. A server that does not say so is assumed to have a mail server. */
export const isMailSetUp = ({ _meta }: Instance): boolean =>
  (_meta as { is_mail_set_up?: boolean } | undefined)?.is_mail_set_up !== false

/** The link of an account that waits for its activation, for super admins to hand over themselves. */
const activationLink: Action = {
  id: 'activation_link',
  text: 'users.activation_link',
  isShown: (user) => session()?.user?.account_type === 'super_admin' && offers(user, 'send_activation_link'),
  run: async (user) => (await call('POST', `/api/users/${user.id}/activation-link/`)).data,
  done: 'copied',
  secret: {
    field: 'url',
    title: 'users.activation_link.title',
    text: 'users.activation_link.text',
    until: 'expires_at',
  },
}

const PEOPLE = ['internal', 'external', 'full', 'super_admin']

/** True for an account type that can have second factors. */
export const isPerson = (accountType: unknown): boolean => PEOPLE.includes(`${accountType}`)

/** For a person who lost their factors. */
const resetSecondFactors: Action = {
  id: 'reset_second_factors',
  text: 'users.reset_second_factors',
  title: 'users.reset_second_factors.title',
  question: 'users.reset_second_factors.question',
  isDangerous: true,
  isShown: (user) => may(user, 'edit') && isPerson(user.account_type) && user.status !== 'anonymized',
  run: ({ id }) => call('POST', `/api/users/${id}/reset-second-factors/`),
  done: 'users.reset_second_factors.done',
}

export const users: Resource = {
  name: 'users',
  path: '/api/users/',
  route: '/admin/users',
  icon: 'user',
  title: 'users',
  one: 'users.one',
  label: ({ full_name, first_name, last_name, username }) =>
    `${full_name ?? `${first_name ?? ''} ${last_name ?? ''}`}`.trim() || `${username}`,
  columns: ['full_name', 'username', 'account_type', 'status', 'roles', 'last_login'],
  filtersOnly: ['is_available', 'is_super_admin', 'is_provisioned'],
  search: 'full_name__icontains',
  sections: [
    {
      title: 'section.person',
      fields: [
        'username',
        'account_type',
        'first_name',
        'last_name',
        'job_title',
        'company_name',
        'phone',
        'mobile',
        'timezone',
      ],
    },
    {
      title: 'section.access',
      fields: ['roles', 'password', 'delay_activation', 'is_ip_restriction_enabled', 'allowed_ip_ranges'],
    },
    {
      title: 'section.sign-in',
      fields: ['activated_at', 'last_login', 'password_set_at', 'password_expires_at', 'link_sent_at', 'link_sent_by'],
    },
  ],
  hidden: ['next_actions'],
  actions: [
    action('send_activation_link'),
    activationLink,
    action('unlock'),
    resetSecondFactors,
    ...NAMES.slice(2).map(action),
  ],
  canDelete: false,
}
