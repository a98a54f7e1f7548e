// A resource with one instance: its settings, edited in place.

import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type ReactNode, useState } from 'react'
import { instance as instanceQuery, options } from '../api/query.ts'
import type { Fields, Instance, Options } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import { useShortcuts } from '../kit/keys.ts'
import { type Key, t } from '../texts.ts'
import { Facts } from './detail.tsx'
import { Edit } from './edit.tsx'
import { Reading } from './failure.tsx'
import { fieldsFor } from './form.tsx'
import look from './generic.module.css'
import { mayReadLog, ObjectLog } from './object-log.tsx'
import { type Inputs, may, type Parts, type Section } from './resource.ts'

export interface SingleProps {
  title: Key
  /** The name in the log. */
  name: string
  path: string
  sections: Section[]
  /** Fields that are not shown. */
  hidden?: string[]
  inputs?: Inputs | undefined
  views?: Parts['views']
  /** The labels of fields whose names have another meaning elsewhere. */
  names?: { [alias: string]: Key }
  panels?: ComponentType<{ instance: Instance }>[]
  /** True if the caller may edit it, for a resource that does not say so. */
  canEdit?: boolean
  /** True if it was never saved. */
  isUnset?: (instance: Instance) => boolean
  /** Called with the values to be saved. A returned text is shown as a question before. */
  warning?: (before: Fields, values: Fields) => ReactNode
  onSaved?: (instance: Instance) => void
}

const withLabels = (details: Options['details'], names: { [alias: string]: Key }): Options['details'] => ({
  ...details,
  schema: details.schema.map((field) => {
    const name = names[field.alias]
    return name ? { ...field, label: t(name) } : field
  }),
})

export function Single(props: SingleProps) {
  const { title, name, path, sections, panels } = props
  const described = useQuery(options(path))
  const read = useQuery(instanceQuery(path))
  const [isEditing, setIsEditing] = useState(false)
  const instance = read.data?.instance
  const canEdit = instance !== undefined && (props.canEdit ?? may(instance, 'edit'))
  useShortcuts(canEdit && !isEditing ? [{ keys: 'e', text: t('edit'), run: () => setIsEditing(true) }] : [])
  const details = described.data && withLabels(described.data.details, props.names ?? {})
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t(title)}</h1>
        <div className={look.spacer} />
        {canEdit && !isEditing && (
          <Button look="primary" icon="pencil" onPress={() => setIsEditing(true)}>
            {t('edit')}
          </Button>
        )}
      </header>
      <Reading of={[read, described]} />
      {instance && read.data && details && (
        <div className={look.detail}>
          <div className={look.main}>
            {isEditing ? (
              <Edit
                path={path}
                list={path}
                sections={sections}
                inputs={props.inputs}
                warning={props.warning}
                isUnset={props.isUnset?.(instance)}
                read={read.data}
                details={details}
                onSaved={props.onSaved}
                onDone={() => setIsEditing(false)}
              />
            ) : (
              <>
                <Facts
                  sections={sections}
                  hidden={props.hidden}
                  views={props.views}
                  instance={instance}
                  fields={fieldsFor(details, instance)}
                />
                {panels?.map((Panel) => (
                  <Panel key={Panel.name} instance={instance} />
                ))}
              </>
            )}
          </div>
          {mayReadLog() && (
            <aside className={look.side} aria-label={t('about')}>
              <ObjectLog filter={`resource=${name}${instance.id === undefined ? '' : `&object_id=${instance.id}`}`} />
            </aside>
          )}
        </div>
      )}
    </>
  )
}
