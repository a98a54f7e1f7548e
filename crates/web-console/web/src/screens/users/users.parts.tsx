import { useQuery } from '@tanstack/react-query'
import { page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Json } from '../../api/shapes.ts'
import { Link } from '../../generic/go.tsx'
import { FieldInput } from '../../generic/input.tsx'
import { type InputProps, may, type PanelProps, type Parts } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Lines } from '../../kit/fields.tsx'
import { isMailSetUp, users } from '../../resources/users.ts'
import { Identities } from '../../shared/identities.tsx'
import { ManagedUser } from '../../shared/managed.tsx'
import { labelOf, t } from '../../texts.ts'
import { ApiKeys } from './api-keys.tsx'
import { GroupsOf } from './groups-of.tsx'

/** Offers only the types that this account may get. */
function AccountType({ field, name, value, onChange, instance }: InputProps) {
  const meta = instance?._meta as { allowed_account_type_changes?: Json[] } | undefined
  const allowed = meta?.allowed_account_type_changes
  const values = field.values?.filter(
    (choice) => !allowed || choice.value === instance?.account_type || allowed.includes(choice.value),
  )
  return <FieldInput field={{ ...field, ...(values && { values }) }} name={name} value={value} onChange={onChange} />
}

/** Roles are for configuration administrators alone. */
function Roles({ field, name, value, onChange, instance, values }: InputProps) {
  if ((values.account_type ?? instance?.account_type) !== 'full') return null
  return (
    <FieldInput field={field} name={name} value={value} onChange={onChange} label={instance?._meta?.labels?.roles} />
  )
}

/** Only service accounts have a password that administrators set. */
function Password({ field, name, value, onChange, instance, values }: InputProps) {
  const type = `${values.account_type ?? instance?.account_type ?? ''}`
  if (!type.startsWith('service_')) return null
  return (
    <FieldInput
      field={{ ...field, write_only: true, required: instance === undefined }}
      name={name}
      value={value}
      onChange={onChange}
    />
  )
}

/** The address of the caller from their own session, with a prefix of all its bits. */
function useOwnAddress(isWanted: boolean): string | undefined {
  const { data } = useQuery({ ...page('/api/users/me/sessions/', 'limit=100'), enabled: isWanted })
  const ip = data?.results.find(({ is_current }) => is_current === true)?.ip
  return typeof ip === 'string' && ip !== '' ? `${ip}/${ip.includes(':') ? 128 : 32}` : undefined
}

/** The ranges of addresses from which an account may sign in, one a line. */
function AddressRanges({ field, name, value, onChange, instance, values }: InputProps) {
  const isRestricted = (values.is_ip_restriction_enabled ?? instance?.is_ip_restriction_enabled) === true
  const own = useOwnAddress(isRestricted)
  if (!isRestricted) return null
  const ranges = Array.isArray(value) ? value.map(String) : []
  return (
    <>
      <Lines name={name} label={labelOf(field)} hint={t('users.ranges')} value={ranges} onChange={onChange} />
      {own && !ranges.includes(own) && (
        <div>
          <Button icon="plus" onPress={() => onChange([...ranges.filter((range) => range.trim() !== ''), own])}>
            {t('users.ranges.own', { address: own })}
          </Button>
        </div>
      )}
    </>
  )
}

/** The notice about an account that waits for its link, if mail does not leave the server: it says what to do. */
function NotSent({ instance, begin }: PanelProps) {
  const isShown = (id: string) => users.actions?.find((one) => one.id === id)?.isShown(instance) === true
  if (isMailSetUp(instance) || !isShown('send_activation_link')) return null
  return (
    <div className={css.notice} data-tone="warn">
      <p>{t('users.not-sent')}</p>
      <p className={css.hint}>{t(isShown('activation_link') ? 'users.not-sent.copy' : 'users.not-sent.ask')}</p>
      <div className={css.actions}>
        {isShown('activation_link') && (
          <Button look="primary" icon="copy" onPress={() => begin?.('activation_link')}>
            {t('users.activation_link')}
          </Button>
        )}
        {session()?.permissions?.outbound_mail_setup?.view === true && (
          <Link className={css.button} to="/admin/mail">
            {t('mail')}
          </Link>
        )}
      </div>
    </div>
  )
}

/** The sign-ins at providers that are linked to the account. */
const LinkedSignIns = ({ instance, path }: PanelProps) =>
  may(instance, 'edit') ? <Identities path={`${path}identities/`} /> : null

export const parts: Parts = {
  inputs: { account_type: AccountType, roles: Roles, password: Password, allowed_ip_ranges: AddressRanges },
  above: [NotSent, ManagedUser],
  panels: [ApiKeys, GroupsOf, LinkedSignIns],
}
