// The administration log and the sign-ins: each line links to its subject.

import { session } from '../../api/session.ts'
import type { Instance, Json } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Lines } from '../../generic/lines.tsx'
import { useOptionTexts } from '../../generic/log-values.tsx'
import { isReference, nameOf, Tag } from '../../kit/values.tsx'
import { RESOURCES } from '../../resources/index.ts'
import { menu } from '../../shared/menu.ts'
import { named, t } from '../../texts.ts'
import { Changes } from './changes.tsx'
import { nameIn, placeOf } from './log-places.ts'

const ROUTES = Object.fromEntries(RESOURCES.map(({ name, route }) => [name, route]))

/** A user, with a link to the account if the caller may view it. */
function Person({ value }: { value: Json }) {
  if (!isReference(value)) return null
  const name = nameOf(value)
  if (value.is_deleted || session()?.permissions?.users?.view !== true) return name
  return <Link to={`/admin/users/${value.id}`}>{name}</Link>
}

const By = ({ value }: { value: Json }) => (isReference(value) ? <Person value={value} /> : t('the-system'))

const mayGo = (place: string) =>
  menu().some(({ entries }) => entries.some(({ to }) => place === to || place.startsWith(`${to}/`)))

/** The subject of a line, with its kind. */
function About({ instance }: { instance: Instance }) {
  const kind = named('resource', `${instance.resource}`)
  const own = nameIn(instance)
  const place = placeOf(instance, ROUTES)
  return (
    <>
      {place && mayGo(place) ? <Link to={place}>{own || kind}</Link> : own || kind}
      {own && <div className={look.when}>{kind}</div>}
    </>
  )
}

function Changed({ value, instance }: { value: Json; instance: Instance }) {
  const textOf = useOptionTexts(`${instance.resource}`, RESOURCES)
  return <Changes value={value} textOf={textOf} />
}

export function Log() {
  return (
    <Lines
      path="/api/administration/log/"
      title="log"
      columns={['at', 'by', 'action', 'object_name', 'changes']}
      search="object_name__icontains"
      views={{
        by: By,
        action: ({ value }) => <Tag>{named('event', `${value}`)}</Tag>,
        object_name: About,
        changes: Changed,
      }}
    />
  )
}

/** A successful sign-in also has a colour. */
const Outcome = ({ value }: { value: Json }) => <Tag value={`${value}`}>{named('event', `${value}`)}</Tag>

const Whose = ({ value }: { value: Json }) =>
  isReference(value) ? <Person value={value} /> : <span className={look.none}>{t('sign-ins.nobody')}</span>

export function SignIns() {
  return (
    <Lines
      path="/api/administration/sign-ins/"
      title="sign-ins"
      columns={['at', 'event_type', 'user', 'ip', 'reason']}
      views={{ event_type: Outcome, user: Whose }}
    />
  )
}
