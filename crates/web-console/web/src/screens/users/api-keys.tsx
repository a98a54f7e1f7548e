// The API keys of a service account. Super admins look after them.

import { useQuery } from '@tanstack/react-query'
import { options } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Field, Fields, Instance, Json } from '../../api/shapes.ts'
import { Matrix } from '../../generic/matrix.tsx'
import type { InputProps, PanelProps } from '../../generic/resource.ts'
import { Radios } from '../../kit/fields.tsx'
import { Credentials } from '../../shared/credentials.tsx'
import { labelOf, named, t } from '../../texts.ts'

/** The proposed validity of a new key, in milliseconds. */
const PROPOSED_MS = 90 * 86_400_000

const initial = (): Fields => ({
  permissions: null,
  expires_at: new Date(Date.now() + PROPOSED_MS).toISOString().replace(/:\d\d\.\d+Z$/, ':00.000000Z'),
})

const isService = (accountType: Json | undefined) => `${accountType}`.startsWith('service_')

/** The granted actions in one line. */
function permissionsText(value: Json | undefined): string {
  if (value === null) return t('api-keys.all')
  const granted = Object.entries((value ?? {}) as { [resource: string]: string[] })
  if (granted.length === 0) return t('api-keys.narrow.none')
  return granted
    .map(([resource, actions]) => {
      const names = actions.map((action) => named('action', action)).join(', ')
      return `${named('resource', resource)}: ${names}`
    })
    .join(' · ')
}

/** The beginning of a key, by which people recognise it, and what it may do. */
const KeyFacts = ({ credential: { prefix, permissions } }: { credential: Instance }) => (
  <>
    <code>{`${prefix}…`}</code>
    {` · ${permissionsText(permissions)}`}
  </>
)

/** All permissions of the account, or some of them. */
function PermissionsInput(props: InputProps & { canHaveSome: boolean }) {
  const { field, name, value, onChange, canHaveSome } = props
  const roles = useQuery(options('/api/roles/'))
  const schema = roles.data?.details.schema.find(({ alias }) => alias === field.alias)?.schema
  const matrix: Field = { ...field, label: t('api-keys.narrow.which'), ...(schema && { schema }) }
  return (
    <>
      <Radios
        name={name}
        label={labelOf(field)}
        hint={t('api-keys.narrow.hint')}
        isRequired
        value={value === null ? 'all' : 'some'}
        choices={[
          { value: 'all', text: t('api-keys.all') },
          { value: 'some', text: t(canHaveSome ? 'api-keys.narrow' : 'api-keys.narrow.none') },
        ]}
        onChange={(chosen) => onChange(chosen === 'all' ? null : {})}
      />
      {value !== null && canHaveSome && schema && <Matrix {...props} field={matrix} />}
    </>
  )
}

/** Accounts of type `service_external` have no global permissions that a key could have. */
const Narrowed = (props: InputProps) => <PermissionsInput {...props} canHaveSome />
const Bare = (props: InputProps) => <PermissionsInput {...props} canHaveSome={false} />

export function ApiKeys({ instance: { account_type: type }, path }: PanelProps) {
  if (!isService(type) || session()?.user?.account_type !== 'super_admin') return null
  return (
    <Credentials
      path={`${path}api-keys/`}
      texts="api-keys"
      Facts={KeyFacts}
      secret={{ field: 'key', title: 'api-keys.shown', text: 'api-keys.shown.text', until: 'expires_at' }}
      initial={initial}
      inputs={{ permissions: type === 'service_internal' ? Narrowed : Bare }}
    />
  )
}
