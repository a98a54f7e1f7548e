// The tags that a template of a class may have, to be copied.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { options } from '../../api/query.ts'
import type { Field } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Copyable } from '../../kit/copyable.tsx'
import { TextField } from '../../kit/fields.tsx'
import { recordFields } from '../../shared/forms/record-fields.ts'
import { labelOf, t } from '../../texts.ts'

const STEP = 30
const RELATED = /^(\/api\/object-classes\/\d+\/)object-records\/autocomplete\//

/** The class of a relation, from the path of its autocomplete. */
const relatedPath = ({ autocomplete }: Field): string | undefined => RELATED.exec(autocomplete ?? '')?.[1]

const tag = (name: string) => `{{ ${name} }}`

function filtered(name: string, type: string): string {
  if (type === 'date' || type === 'datetime') return tag(`${name} | date "d MMMM yyyy"`)
  if (type === 'decimal') return tag(`${name} | number "#,##0.00"`)
  return tag(name)
}

interface Entry {
  text: string
  tag: string
}

const entriesOf = (fields: Field[], prefix = ''): Entry[] =>
  fields.map((field) => ({ text: labelOf(field), tag: filtered(`${prefix}${field.alias}`, field.type) }))

const otherTags = (): Entry[] => [
  { text: t('tags.owner'), tag: tag('owner.full_name') },
  { text: t('tags.today'), tag: tag('today | date "d MMMM yyyy"') },
  { text: t('tags.company'), tag: tag('company.admin_email_address') },
]

export function Tags({ classPath }: { classPath: string }) {
  const described = useQuery(options(`${classPath}object-records/`))
  const [searched, setSearched] = useState('')
  const fields = recordFields(described.data)
  if (!described.data) return null
  const relations = fields.filter((field) => relatedPath(field) !== undefined)
  return (
    <section className={generic.section} aria-label={t('tags')}>
      <h2>{t('tags')}</h2>
      <p className={css.hint}>{t('tags.hint')}</p>
      {fields.length > 10 && (
        <TextField
          name="tag-search"
          label={t('class-fields.find')}
          isRequired
          type="search"
          value={searched}
          onChange={setSearched}
        />
      )}
      <List entries={[...entriesOf(fields), ...otherTags()]} searched={searched} />
      {relations.map((relation) => (
        <Parent key={relation.alias} relation={relation} searched={searched} />
      ))}
      <h3>{t('tags.more')}</h3>
      <List
        entries={[
          { text: t('tags.if'), tag: `{{?${fields[0]?.alias ?? 'alias'}}} … {{/${fields[0]?.alias ?? 'alias'}}}` },
        ]}
        searched=""
      />
      <p className={css.hint}>{t('tags.loop')}</p>
      <List
        entries={[{ text: t('tags.children'), tag: '{{#child_class_alias}} … {{/child_class_alias}}' }]}
        searched=""
      />
    </section>
  )
}

function List({ entries, searched }: { entries: Entry[]; searched: string }) {
  const [count, setCount] = useState(STEP)
  const query = searched.toLowerCase()
  const matchingEntries = entries.filter((one) => `${one.text} ${one.tag}`.toLowerCase().includes(query))
  return (
    <>
      <dl className={generic.facts}>
        {matchingEntries.slice(0, count).map((one) => (
          <div key={one.tag} className={generic.fact}>
            <dt>{one.text}</dt>
            <dd>
              <Copyable text={one.tag} />
            </dd>
          </div>
        ))}
      </dl>
      {matchingEntries.length === 0 && <p className={generic.none}>{t('nothing-found')}</p>}
      {matchingEntries.length > count && (
        <div>
          <Button onPress={() => setCount(count + STEP)}>
            {t('show-more', { count: matchingEntries.length - count })}
          </Button>
        </div>
      )}
    </>
  )
}

/** The fields of the related record, fetched when the user opens them. */
function Parent({ relation, searched }: { relation: Field; searched: string }) {
  const [isOpen, setIsOpen] = useState(false)
  const described = useQuery({ ...options(`${relatedPath(relation)}object-records/`), enabled: isOpen })
  return (
    <details className={generic.set} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{t('tags.of', { name: labelOf(relation) })}</summary>
      {described.data && (
        <List entries={entriesOf(recordFields(described.data), `${relation.alias}.`)} searched={searched} />
      )}
    </details>
  )
}
