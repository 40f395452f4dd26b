"""OceanBase OMS: values and records that its formats share. Pure."""
