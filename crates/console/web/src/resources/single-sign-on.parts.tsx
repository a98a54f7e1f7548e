import type { Json } from '../api/shapes.ts'
import type { Parts } from '../generic/resource.ts'
import { Copyable } from '../kit/copyable.tsx'

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

export const parts: Parts = { views: { redirect_uri: Address, logout_url: Address } }
